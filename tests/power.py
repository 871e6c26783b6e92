"""What a store finds of itself when the machine went down while it was in use."""

from pathlib import Path

from msgspec.structs import replace

from bide.format.state import FILE_NAME, decode_state, encode_state


def forget_boot(store: Path) -> None:
    """Have the store in directory *store* left open by another boot of the machine."""
    path = store / FILE_NAME
    state = decode_state(path.read_bytes())
    path.write_bytes(encode_state(replace(state, boot="another boot", closed_at=None)))

"""Files: tensors and whole training states as safetensors, with their structure as JSON.

A file is one of the safetensors format: eight bytes with the length of a header, the header as JSON
(for each tensor its dtype, its shape and its range of bytes), and the bytes. So PyTorch's files of
that format are read here, and those written here are read elsewhere, as tensors under dotted names.
Tensors that share memory are written once for us, and for other readers under each of their names.
The rest of an object (keys, lists, numbers, strings, views of one storage) is JSON in the header.

A file holds data and nothing that could run: reading one makes tensors and Python's own containers
of what was checked. Everything is checked before memory is asked for, and what is asked for is no
more than the file has. The header and each tensor carry a checksum.

A new file is written beside the old one and takes its place when it is whole and on the disk, so a
crash leaves one or the other.

    header.py       the header of a file
    structure.py    objects as JSON beside arrays, and back
    torch_files.py  PyTorch's own files, read without running them
    files.py        `save` and `load`

The rest of the library knows only those two.
"""

from contraflow.serialize.files import load, save

__all__ = ["load", "save"]

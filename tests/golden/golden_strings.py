"""The strings of strings.h as strings_main prints them, and the digest of their ids: for tokens.py, pieces.py, tokenizer_files.py."""
import struct


def read_strings(source):
    data, at, out = source.read(), 0, []
    while at < len(data):
        (n,) = struct.unpack_from("<I", data, at)
        out.append(data[at + 4:at + 4 + n].decode("utf-8"))
        at += 4 + n
    return out


def add(fnv, value):
    """One step of FNV-1a over the four bytes of an id."""
    for byte in struct.pack("<i", value):
        fnv = ((fnv ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return fnv

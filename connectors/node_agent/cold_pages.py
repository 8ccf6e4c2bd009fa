"""Memory that was not touched for a while, as kidled counts it.

Kernels with kidled (Anolis OS, Alibaba Cloud Linux) have a file `memory.idle_page_stats` in each
memory cgroup: a line for each class of pages, with bytes by how long they have been idle. All of
them are cold to Koordinator (util/idleinfo_kidled.go, GetColdPageTotalBytes), where the kernel
scans and a cgroup's figures have those of the cgroups below. Other kernels do not know which pages
are hot, and that reading is missing.
"""

FILE = "memory.idle_page_stats"

#: clean or dirty, swap or file, evictable or not, inactive or active; and slab.
_CLASSES = {a + b + c + d for a in "cd" for b in "sf" for c in "eu" for d in "ia"} | {"slab"}


def parse_cold_bytes(text: str) -> int | None:
    """Bytes of cold pages of a cgroup and those below it; None where the kernel does not scan.

    Raises ValueError where there is no such line.
    """
    cold_bytes, found = 0, False
    settings: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in _CLASSES:
            cold_bytes += sum(map(int, words[1:]))
            found = True
        elif len(words) == 3 and words[0] == "#":
            settings[words[1].rstrip(":")] = words[2]
    if not found:
        raise ValueError(f"found {text[:60]!r}; expected lines such as csei with bytes by age")
    scans = settings.get("scan_period_in_seconds", "0") != "0"
    return cold_bytes if scans and settings.get("use_hierarchy", "1") == "1" else None

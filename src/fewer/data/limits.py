"""Limits on what files may ask of the machine, far above what real ones need."""

LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000  # Hz
MOST_CHANNELS = 256
LARGEST_SECOND = 1 << 25  # samples of all channels in a second of a recording that is read in blocks
LOUDEST = 2.0**31  # absolute value of a sample: of 32-bit integers that were never divided by their range
LONGEST_CUT = 1e5  # seconds
LATEST = 1e9  # seconds: start of a cut, duration of a recording
MOST_SAMPLES = 1 << 48  # of a recording
LONGEST_NAME = 4096  # characters of an id or of a path
FREE_SIZE, HIGHEST_RATIO = (
    1 << 26,
    200,
)  # bytes that a compressed file always may hold; beyond them, per byte of its own
DECOMPRESSION_MEMORY = 1 << 28  # bytes that unpacking an xz file may take (`xz -9` takes 65 MB)

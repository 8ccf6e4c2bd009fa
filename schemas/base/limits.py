"""How long a record may be: what is read, and what is written, each limit derived from the others.

    input value   at most VALUE_BYTES_MAX, or it is refused with a dead letter
    output value  at most VALUE_BYTES_MAX, since its readers read no more
    journal, changelogs: records of at most PIECE_BYTES_MAX of content; what is longer is cut into
    several any topic takes BATCH_BYTES_MAX, and what stands in a topic of ours is read whatever its
    length

So whatever is applied can be written, and whatever was written can be read.
"""

#: Longest value of an input and of an output; Kafka's own default limit is 1 MiB.
VALUE_BYTES_MAX = 4 * 1024 * 1024

#: Largest batch of records that a topic takes and a producer sends: room for a value of the largest
#: size that is read, and as much again for what goes with it.
BATCH_BYTES_MAX = 2 * VALUE_BYTES_MAX

#: Most bytes of content in one record of the journal or of a changelog. With head and key, which
#: have at most `PIECE_HEAD_BYTES_MAX`, such a record stays below 1 MB, the least of Kafka's default
#: limits.
PIECE_BYTES_MAX = 700_000

#: Most bytes of a record's key and head beside its content.
PIECE_HEAD_BYTES_MAX = 16_384

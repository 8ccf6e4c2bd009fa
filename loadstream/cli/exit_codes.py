"""Exit codes of all commands; the root help and the reference show them."""

EXIT_CODES = {
    0: "Done, or the program was stopped by SIGTERM.",
    1: "The command failed or was refused; the last sentence on standard error says why.",
    2: "The command line or a setting is wrong, or a required tool is missing.",
    3: "There is no answer: no record names the cluster or object, or part of the history to replay is gone.",
    130: "Ctrl-C.",
}

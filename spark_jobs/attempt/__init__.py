"""One execution of a batch's job: guard, read, decode, write beside the target, MERGE. Imports `tables` and below."""

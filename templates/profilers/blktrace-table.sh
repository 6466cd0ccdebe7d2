cd profile-blktrace.data
for trace in *.blktrace.0; do
  name=${trace%.blktrace.0}
  printf '%s\n' "$name"
  blkparse --quiet --no-text-output --input="$name" --dump-binary="$name.bin" >/dev/null
  # Of its tables, the one of the whole device. It adds dm to names of what it takes for a mapping.
  btt --input-file="$name.bin" | awk '/^=/ { tables++ } tables == 1 && /^ +ALL|^[A-Z]2[A-Z]/'
done

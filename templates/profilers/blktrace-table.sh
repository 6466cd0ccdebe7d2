cd profile-blktrace.data
for trace in *.blktrace.0; do
  name=${trace%.blktrace.0}
  printf '%s\n' "$name"
  blkparse --quiet --no-text-output --input="$name" --dump-binary="$name.bin" >/dev/null
  btt --input-file="$name.bin" | awk '/^[Q2DCI]{3} / || /^ +ALL / { if (!seen[$1]++) print }'
done

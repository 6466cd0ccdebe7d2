# Test {{ pts.title }} of SNIA's Performance Test Specification 2.0.2. Purge: the device has no data any more.
device={{ stack.devices }}
blkdiscard "$device" || fail "$device cannot be purged:"
printf 'note\tpurge\tblkdiscard\n'
{% if pts.fill %}
# Preconditioning: write all {{ pts.times }} times in order.
began=${EPOCHREALTIME/[.,]/}
said=$(confined fio --eta=never --thread --ioengine=libaio --direct=1 --allow_file_create=0 --rw=write --bs={{ pts.fill }} \
  --iodepth=32 --size={{ pts.active }} --loops={{ pts.times }} --refill_buffers=1 --name=fill "--filename=${device//:/\\:}" 2>&1) || {
  printf '%s\n' "$said" >&2
  fail "preconditioning failed:"
}
took=$((${EPOCHREALTIME/[.,]/} - began))
printf 'note\tprecondition\twritten %d times in blocks of %d bytes: %d.%03d s\n' {{ pts.times }} {{ pts.fill }} \
  $((took / 1000000)) $((took / 1000 % 1000))
{% endif %}

tracked=({{ pts.tracked }})
figure={{ pts.figure }} # the figure of these jobs that has to be steady
apart={{ pts.apart }}   # rounds between its values
{% include 'pts-steady.sh' %}

# Rounds of job.fio, each with its own random offsets, until the figures are steady.
rounds={{ pts.rounds }} most_written={{ pts.most_written }}
job=$(<job.fio)
[[ $job =~ randseed=([0-9]+) ]] || fail "job.fio has no randseed"
seed=${BASH_REMATCH[1]}
: >"$output"
for ((round = 1; round <= rounds; round++)); do
  printf '%s\n' "${job/randseed=$seed/randseed=$(((seed + round) % 2147483647))}" >round.fio
  rm -f round.json
  (confined fio --output-format=json --output=round.json round.fio) || status=$?
  if [[ -e round.json ]]; then
    text=$(<round.json)
    printf '%s\n' "$text" >>"$output"
  fi
  ((status == 0)) || break
  add_round "$round" <round.json
  if is_steady "$round"; then break; fi
  if ((most_written && written >= most_written)); then break; fi
done
rm -f round.fio round.json

# The time that a {{ sync.action }} takes{% if not sync.alone %}, with fio beside it from its beginning to its end{% endif %}.
sync_of={{ sync.action }}
patience={{ sync.patience }}
rm -f begun pause
# A wait without a process: there is no writer of this pipe.
mkfifo pause
exec {pipe}<>pause
rm pause
pause() { read -rt "$1" -u "$pipe" || true; }
{% for layer in stack.layers if layer.kind in ('md', 'lvm') and layer.redundant %}
{% include layer.kind ~ '/sync-action.sh' %}
{% endfor %}

prepare
{% if not sync.alone %}
confined fio --output-format=json+ --output="$output" job.fio &
work=$!
while [[ ! -e begun ]] && kill -0 "$work" 2>/dev/null; do pause 0.05; done
{% endif %}
began=${EPOCHREALTIME/,/.}
begin
left=100
until is_running; do
  ((left-- > 0)) || fail "the $sync_of did not begin, or was over at once"
  pause 0.05
done
limit=$((SECONDS + patience))
while is_running; do
  ((SECONDS < limit)) || fail "the $sync_of did not end within $patience s: is sync_speed_max too low?"
  pause 0.1
done
ended=${EPOCHREALTIME/,/.}
{% if not sync.alone %}
# fio ends all its jobs, prints its figures, and exits with 128.
kill -INT "$work" 2>/dev/null || true
wait "$work" || status=$?
work=
case $status in
  128) status=0 ;;
  0) fail "fio ended before the $sync_of" ;;
esac
{% endif %}
facts
result="{\"action\": \"$sync_of\", \"began\": $began, \"ended\": $ended, \"bytes\": $bytes, \"mismatch_cnt\": $mismatches,"
result+=" \"sync_speed_max\": $fastest}"
printf '%s\n' "$result" >sync.json

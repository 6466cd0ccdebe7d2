declare -A values=() # of each tracked job and round: its figure, in thousandths
written=0            # bytes of all rounds

# thousandths number: a number of JSON without a sign
thousandths() {
  [[ $1 =~ ^([0-9]+)(\.([0-9]*))?$ ]] || fail "fio's output has a strange number: $1"
  local fraction=${BASH_REMATCH[3]}000
  REPLY=$((BASH_REMATCH[1] * 1000 + 10#${fraction:0:3}))
}

# add_round round <json: adds the figures of fio's output, a key in each line
add_round() {
  local line job='' side='' of='' key number
  while read -r line; do
    key=${line%% :*} number=${line##*: } number=${number%,}
    case $key in
      '"jobname"') job=${number//\"/} side='' ;;
      '"read"' | '"write"') side=${key//\"/} ;;
      '"trim"' | '"sync"' | '"usr_cpu"') side='' ;;
      '"io_bytes"') if [[ $side == write ]]; then written=$((written + number)); fi ;;
      '"slat_ns"' | '"clat_ns"' | '"lat_ns"') of=$key ;;
      '"iops"' | '"bw_bytes"' | '"mean"')
        case $figure-$key-$of in
          'iops-"iops"-'* | 'bw-"bw_bytes"-'* | 'lat-"mean"-"lat_ns"') ;;
          *) continue ;;
        esac
        if [[ -n $side && " ${tracked[*]} " == *" $job "* ]]; then
          thousandths "$number"
          values[$job,$1]=$((${values[$job,$1]:-0} + REPLY))
        fi
        ;;
    esac
  done
}

# is_steady round: in the window of five rounds, the range is at most 20 % of the average, and the line of least squares
# rises or falls by at most 10 % of it. All numbers are whole, so nothing is rounded.
is_steady() {
  local job at value y sum least most rise
  (($1 > 4 * apart && ($1 - 1) % apart == 0)) || return 1
  for job in "${tracked[@]}"; do
    y=() sum=0 least='' most=0
    for at in 4 3 2 1 0; do
      value=${values[$job,$(($1 - at * apart))]:-}
      [[ -n $value ]] || fail "fio reported no figures of $job in round $(($1 - at * apart))"
      y+=("$value")
      sum=$((sum + value)) most=$((value > most ? value : most)) least=$((value < ${least:-$value} ? value : ${least:-$value}))
    done
    rise=$((2 * (y[4] - y[0]) + y[3] - y[1]))
    ((25 * (most - least) <= sum && 20 * (rise < 0 ? -rise : rise) <= sum)) || return 1
  done
}

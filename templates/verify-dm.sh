
# Puts the table of a mapping as words into $row. All tables are read at a time, once.
unset dm_tables
dm_row() {
  [[ -v dm_tables ]] || dm_tables=$(dmsetup table)
  local all=$'\n'$dm_tables$'\n' line=
  if [[ $all == *$'\n'"$1: "* ]]; then line=${all#*$'\n'"$1: "}; fi
  read -ra row <<<"${line%%$'\n'*}" || true
}

# Checks that a mapping covers its whole member: setting prefix, mapping, member, target, device in the table, uuid.
told_mapping() {
  local at
  dm_row "$2"
  kernel_name "/dev/mapper/$2"
  at=/sys/class/block/$REPLY
  first_line "$at/dm/uuid"
  told "$1.uuid" "$6" "$REPLY"
  first_line "$at/dm/suspended"
  told "$1.suspended" 0 "$REPLY"
  first_line "$at/size"
  told "$1.target" "0 $REPLY $4" "${row[*]:0:3}"
  kernel_name "$3"
  first_line "/sys/class/block/$REPLY/dev"
  told "$1.device" "$REPLY" "${row[$5]-absent}"
}

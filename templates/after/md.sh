
kernel_name {{ layer.device }}
first_line "/sys/class/block/$REPLY/md/sync_action"
name={{ layer.names[0] }}
wanted={{ layer.under_way }}
[[ $REPLY == "$wanted" ]] ||
  fail "not as declared: $name.sync_action wanted $wanted until the end of the measurement, kernel says $REPLY" \
    "(lower sync_speed_max, or measure for less long)"

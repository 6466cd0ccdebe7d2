
array={{ layer.device }}
uuid={{ layer.uuid }}
members=({{ layer.members }})
if [[ -e $array ]]; then
  mdadm --stop "$array"
fi
while read -r line; do
  if [[ $line == *"UUID=$uuid"* ]]; then
    mdadm --zero-superblock "${members[@]}" 2>/dev/null || true
  fi
done < <(mdadm --examine --brief "${members[@]}" 2>/dev/null | grep UUID= || true)


# Only a volume group with the mark of this program is removed, under any name.
export LVM_SUPPRESS_FD_WARNINGS=1
tag={{ layer.tag }}
memory=${MATRIX_MEMORY:-/run/matrix}/lvm/$tag
standing=()
members=({{ layer.members }})
for member in "${members[@]}"; do
  if [[ -b $member ]]; then standing+=("$member"); fi
done
found=
if [[ -n ${standing[*]-} ]]; then
  found=$(wipefs --noheadings --parsable --output TYPE -- "${standing[@]}" 2>/dev/null) || true
fi
if [[ $found == *LVM2_member* ]]; then
  config={{ layer.config }}
  ours=() marked=''
  rows=$(lvm pvs --config "$config" --noheadings --separator '|' --options pv_name,vg_tags,vg_name)
  while IFS='|' read -r node tags group; do
    if [[ ,$tags, == *",$tag,"* ]]; then
      marked=yes
    elif [[ -n ${group// /} || ! -e $memory ]]; then
      continue
    fi
    node=${node##* }
    if [[ -b $node ]]; then ours+=("$node"); fi
  done <<<"$rows"
  if [[ -n $marked ]]; then retry lvm vgchange --config "$config" --yes --activate n "@$tag"; fi
  # One write removes each, so after an interruption the remaining ones still have the mark.
  if [[ -n ${ours[*]-} ]]; then wipefs --quiet --all "${ours[@]}"; fi
fi
if [[ -e $memory ]]; then rm -- "$memory"; fi

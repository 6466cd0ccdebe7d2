
# A volume group that carries our mark is ours, whatever it is called; any other is somebody's data.
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
  # One write takes away each: what is still there if we are stopped meanwhile still carries our mark.
  if [[ -n ${ours[*]-} ]]; then wipefs --quiet --all "${ours[@]}"; fi
fi
if [[ -e $memory ]]; then rm -- "$memory"; fi

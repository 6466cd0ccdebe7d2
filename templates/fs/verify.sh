{% include 'fs/mounted.sh' %}

mounted {{ layer.directory }} || true
told fs.type {{ layer.type }} "${REPLY%% *}"
has=${REPLY#* }
if [[ -e {{ layer.directory }}.mounted ]]; then
  read -r before <{{ layer.directory }}.mounted
  told fs.mounted "${before#* }" "$has"
else
  told fs.mounted - "$has"
fi
{% if layer.keeps_deleted %}
# A file system that discards by default shows this like an option.
got=off
if [[ ,$has, =~ ,(discard(=[^,]*)?), ]]; then got=${BASH_REMATCH[1]}; fi
told fs.discard off "$got"
{% endif %}
{% if layer.type in ('ext2', 'ext3', 'ext4') %}
# /proc/self/mounts omits defaults; this file has them.
kernel_name {{ layer.members[0] }}
if [[ -r /proc/fs/ext4/$REPLY/options ]]; then
  mapfile -t lines <"/proc/fs/ext4/$REPLY/options"
  printf -v all ',%s' "${lines[@]}"
  has+=$all
fi
{% endif %}
{% if layer.options %}
# Option, its key, the options that must be absent if the kernel does not show it; then the kernel's notations.
option() {
  local text=$1 key=$2 opposites=$3 one got=absent
  shift 3
  if [[ ,$has, =~ ,("$key"=[^,]*), ]]; then got=${BASH_REMATCH[1]}; fi
  for one in "$@"; do
    if [[ ,$has, == *",$one,"* ]]; then got=$text; fi
  done
  if [[ $opposites != - ]]; then
    got=$text
    for one in $opposites; do
      if [[ ,$has, == *",$one,"* ]]; then got=$one; fi
    done
  fi
  told fs.options "$text" "$got"
}
{% for option in layer.options %}
option {{ option.text }} {{ option.key }} {{ option.opposites | join(' ') or '-' }} {{ option.shown }}
{% endfor %}
{% endif %}
{% if layer.facts %}
declare -A said=()
{% endif %}
{% if layer.type in ('ext2', 'ext3', 'ext4') %}
# dumpe2fs counts in blocks, and omits zeros.
said=([stride]=0 [stripe_width]=0 [journal]=none [checksums]=0)
while IFS=: read -r key value; do
  value=${value#"${value%%[! ]*}"}
  case $key in
    'Filesystem UUID') said[uuid]=$value ;;
    'Block size') said[block_size]=$value ;;
    'RAID stride') said[stride]=$value ;;
    'RAID stripe width') said[stripe_width]=$value ;;
    'Inode size') said[inode_size]=$value ;;
    'Filesystem features')
      if [[ $value == *has_journal* ]]; then said[journal]=internal; fi
      if [[ $value == *metadata_csum* ]]; then said[checksums]=1; fi ;;
  esac
done < <(dumpe2fs -h {{ layer.members[0] }} 2>/dev/null)
{% if layer.journal_mkfs %}
# The kernel's journal has the name of its device.
kernel_name {{ layer.members[-1] }}
if [[ -d /proc/fs/jbd2/$REPLY ]]; then said[journal]={{ layer.facts.journal }}; fi
{% endif %}
{% elif layer.type == 'xfs' %}
# The same as xfs_info, without its shell; sunit and swidth are in blocks.
info=$(xfs_spaceman -p xfs_info -c info {{ layer.directory }} 2>/dev/null || true)
if [[ $info =~ data\ +=\ +bsize=([0-9]+) ]]; then said[block_size]=${BASH_REMATCH[1]}; fi
if [[ $info =~ sunit=([0-9]+)\ +swidth=([0-9]+) ]]; then
  said[sunit]=${BASH_REMATCH[1]}
  said[swidth]=${BASH_REMATCH[2]}
fi
if [[ $info =~ isize=([0-9]+) ]]; then said[inode_size]=${BASH_REMATCH[1]}; fi
if [[ $info =~ agcount=([0-9]+) ]]; then said[allocation_groups]=${BASH_REMATCH[1]}; fi
if [[ $info =~ crc=([0-9]+) ]]; then said[checksums]=${BASH_REMATCH[1]}; fi
{% if 'journal' in layer.facts %}
said[journal]=internal
if [[ ,$has, == *,logdev={{ layer.members[-1] }},* ]]; then said[journal]={{ layer.facts.journal }}; fi
{% endif %}
{% elif layer.type == 'btrfs' %}
# A profile is a folder; a second folder means that some data has another profile.
for key in data metadata; do
  for profile in /sys/fs/btrfs/{{ layer.mark }}/allocation/"$key"/*/; do
    [[ -d $profile ]] || continue
    profile=${profile%/}
    said[$key]=${said[$key]:+${said[$key]}+}${profile##*/}
  done
done
said[devices]=0
for member in /sys/fs/btrfs/{{ layer.mark }}/devices/*; do
  if [[ -e $member ]]; then ((said[devices] += 1)); fi
done
{% endif %}
{% for setting, wanted in layer.facts.items() %}
told fs.{{ setting }} {{ wanted }} "${said[{{ setting }}]:-absent}"
{% endfor %}

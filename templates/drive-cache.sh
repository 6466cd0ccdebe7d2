# The file in which a drive's own cache is switched, in $REPLY: of SCSI and SATA disks (by a mode page, which the kernel
# makes the ATA command of `hdparm -W` where it is one), or of virtio disks.
drive_cache() {
  for REPLY in "$1"/device/scsi_disk/*/cache_type "$1"/cache_type; do
    if [[ -e $REPLY ]]; then return 0; fi
  done
}

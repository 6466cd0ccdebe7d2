"""A host `shelf` with physical disks, behind an ssh that is none."""

LAB = """\
hosts:
  shelf:
    reach: ssh:shelf
    disks: [{id: wwn-0x5000c500a1, serial: ZC11A, size: 1MiB}]
"""
#: What a host answers: one disk that was declared, one that was not, and is mounted.
ANSWER = """\
node\tsda\tdev\t8:0
node\tsda\tsize\t2048
node\tsda\tserial\tZC11A
node\tsda\twwid\tnaa.5000c500a1
filled\tsda\t0
node\tsdb\tdev\t8:16
node\tsdb\tsize\t4096
node\tsdb\tserial\t[bold]odd[/bold]
mount\t8:16\t/dev/sdb\t/srv\text4
end
"""

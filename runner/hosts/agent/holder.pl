#!/usr/bin/perl
# What holds disks and runs scripts on a host that is reached by ssh, for as long as somebody far away wants it to.
# perl, because a Debian without it does not exist; given to it by -e, so nothing of it is ever on a disk there. On a host
# that is reached by sudo it is a file of root's, and what sudo allows is this one command (see sudo.py).
#
#     holder begin|again|dismiss ABOVE/RUN.TOKEN LEASE LOCKS GUARD...
#     holder ask                                      runs the script that is its input, which only asks
#
# One process that no connection owns. Sessions lead to it by a socket in that folder and may drop: locks, open disks
# and scripts are its own. Of what nobody asks for any more in LEASE seconds it lets go by itself. Scripts (run by GUARD)
# inherit the locks, so that a disk is locked as long as anything works on it, however the holder itself may end.
#
# Requests and answers are "NUMBER LENGTH\n" and so many bytes: words, apart by null bytes.
use strict;
use warnings;
use Errno qw(EAGAIN EINTR EINVAL EWOULDBLOCK);
use Fcntl qw(:DEFAULT :flock :mode);
use IO::Handle;
use POSIX ();
use Socket;

my ($mode, $folder, $lease, $locks, @guard) = @ARGV;

# Before anything is set that a script would inherit. Who asked and is gone, or waits no longer (nobody waits for more than
# 300 seconds), may not kill what is root's.
if ($mode eq 'ask') { exec qw(timeout --signal=KILL 330 bash -c), 'eval "$(cat)"' or exit 127 }
my ($SIZE, $SEQUENCE, $REREAD) = (0x80081272, 0x80081280, 0x125F);    # BLKGETSIZE64, BLKGETDISKSEQ, BLKRRPART
my (%client, %job, %lock, %disk, %most);
my ($heard, $ending) = (0, 0);
$| = 1;
umask 077;
$SIG{PIPE} = 'IGNORE';

# Seconds that no change of the clock moves.
sub now { return (split ' ', content('/proc/uptime'))[0] }

sub content {
    my ($path) = @_;
    open(my $file, '<', $path) or return '';
    local $/ = undef;
    return scalar(<$file>) // '';
}

sub failed { return join("\0", 'failed', $! + 0, "$!", $_[0]) }

# --- locks and disks

# Why a lock in their folder would be none: whoever may take its file away lets another run lock one of the same name.
# Who had this started by sudo trusts their own folder, as they do without it.
sub distrusted {
    my ($mode, $owner) = (lstat $locks)[2, 4];
    return ''                              if !defined $mode;
    return 'it is no folder'               if !S_ISDIR($mode);
    return "it belongs to the user $owner" if $owner && $owner != $> && $owner != ($ENV{SUDO_UID} // 0);
    return 'others may take away what is in it, as it is not sticky' if $mode & 022 && !($mode & S_ISVTX);
    return '';
}

sub locked {
    my ($name, $text) = @_;
    return 'had' if $lock{$name};
    if (!-d $locks && mkdir $locks) { chmod 01777, $locks }
    my $why = distrusted();
    return "distrusted\0$why" if $why;
    my $path = "$locks/disk-$name";

    # Not created where it exists: kernels refuse that for other users' files in such a folder.
    if (sysopen(my $made, $path, O_RDWR | O_CREAT | O_EXCL)) { chmod 0666, $made }
    sysopen(my $file, $path, O_RDWR | O_NOFOLLOW) or return failed($path);
    if (!flock($file, LOCK_EX | LOCK_NB)) {
        return $! == EWOULDBLOCK ? "taken\0" . content($path) : failed($path);
    }
    truncate $file, 0;
    syswrite $file, "$text, process $$\n";
    $lock{$name} = $file;
    return 'had';
}

sub opened {
    my ($path) = @_;
    if (!$disk{$path}) {
        sysopen(my $file, $path, O_RDONLY | O_EXCL) or return failed($path);
        $disk{$path} = $file;
    }
    my $file = $disk{$path};
    my $rdev = (stat $file)[6];
    my $major = (($rdev >> 8) & 0xfff) | (($rdev >> 32) & ~0xfff);
    my $minor = ($rdev & 0xff) | (($rdev >> 12) & 0xffffff00);
    my ($size, $sequence) = (pack('Q', 0), pack('Q', 0));
    ioctl($file, $SIZE, $size) or return failed($path);
    my $numbered = ioctl($file, $SEQUENCE, $sequence);    # since Linux 5.15
    return join("\0", 'open', "$major:" . ($minor & 0xffffffff), unpack('Q', $size),
        $numbered ? unpack('Q', $sequence) : '');
}

sub written {
    my ($path, $at, $block) = @_;
    my $file = $disk{$path} or return "failed\0000\0it was let go\0$path";

    # By its descriptor, so that it is what was judged, whatever has its name now.
    sysopen(my $again, "/proc/$$/fd/" . fileno($file), O_RDWR) or return failed($path);
    defined sysseek($again, $at, 0) or return failed($path);
    for (my $done = 0; $done < length $block;) {
        my $some = syswrite($again, $block, length($block) - $done, $done) // return failed($path);
        $done += $some;
    }
    $again->sync or return failed($path);
    return 'written';
}

# The processes that have a device open, or open for writing; and what the kernel itself exports, which is no process.
sub having {
    my ($major, $minor, $writing) = @_;
    my $number = ($minor & 0xff) | (($major & 0xfff) << 8) | (($minor & ~0xff) << 12) | (($major & ~0xfff) << 32);
    my @found;
    for my $process (grep { $_ ne $$ } map { m{(\d+)} } glob '/proc/[0-9]*') {
        for my $link (glob "/proc/$process/fd/*") {
            my (undef, undef, $type, undef, undef, undef, $rdev) = stat $link or next;
            next if !S_ISBLK($type) || $rdev != $number;
            my ($flags) = content("/proc/$process/fdinfo/" . ($link =~ m{(\d+)$})[0]) =~ /^flags:\s*(\d+)/m or next;
            next if $writing && !(oct($flags) & O_ACCMODE);
            my ($command) = content("/proc/$process/comm") =~ /(.*)/;
            push @found, "process $process ($command)";
            last;
        }
    }
    for my $space (glob '/sys/kernel/config/nvmet/subsystems/*/namespaces/*') {
        my ($path) = content("$space/device_path") =~ /(.+)/ or next;
        my (undef, undef, $type, undef, undef, undef, $rdev) = stat $path or next;
        next if !S_ISBLK($type) || $rdev != $number || content("$space/enable") !~ /^1/;
        push @found, 'the NVMe target ' . ($space =~ m{([^/]+)/namespaces/})[0];
    }
    return join(', ', @found);
}

# --- scripts

# Told once it has ended, and everything that it started: by the end of a pipe that all of them have inherited.
sub started {
    my ($id, $seconds, $script) = @_;
    my $base = "$folder/$id";
    open(my $file, '>', "$base.script") or return failed("$base.script");
    print({$file} $script) && close($file) or return failed("$base.script");
    pipe(my $hear, my $line) && pipe(my $done, my $doing) or return failed('a pipe');
    my $pid = fork() // return failed('another process');
    if (!$pid) {
        POSIX::setsid();
        fcntl($_, F_SETFD, 0) for $doing, values %lock;
        open(STDIN,  '<&', $hear)            or POSIX::_exit(126);
        open(STDOUT, '>',  "$base.output")    or POSIX::_exit(126);
        open(STDERR, '>',  "$base.complaint") or POSIX::_exit(126);
        $ENV{LVM_SUPPRESS_FD_WARNINGS} = 1;
        $SIG{PIPE} = 'DEFAULT';    # what is ignored stays ignored in scripts, and `yes | head` is another one then
        exec {$guard[0]} @guard, "$base.script" or POSIX::_exit(127);
    }
    $job{$id} = {pid => $pid, line => $line, done => $done, until => now() + $seconds, late => 0, waiting => []};
    return;
}

sub stopped {
    my ($job) = @_;
    kill 'KILL', $job->{pid} if $job->{done};
}

sub ended {
    my ($id) = @_;
    my $job = $job{$id};
    waitpid $job->{pid}, 0;
    $job->{status} = $? & 127 ? 128 + ($? & 127) : $? >> 8;
    delete @{$job}{qw(done line)};
    answered(@{$_}, outcome($id)) for @{$job->{waiting}};
    $job->{waiting} = [];
}

sub outcome {
    my ($id) = @_;
    my ($output, $complaint) = map { content("$folder/$id.$_") } qw(output complaint);
    return join("\0", 'done', $job{$id}{status}, $job{$id}{late}, length $output, $output . $complaint);
}

sub forgotten {
    my ($id) = @_;
    return 'works' if $job{$id} && $job{$id}{done};
    unlink map { "$folder/$id.$_" } qw(script output complaint);
    delete $job{$id};
    return 'forgotten';
}

# Sectors that were written to a disk, by whomever.
sub counted {
    my ($name) = @_;
    return (split ' ', content("/sys/class/block/$name/stat"))[6] // 0;
}

# Whoever asked for scripts sees to it that disks are not worn out. While nothing is heard of them, they cannot.
sub unwatched { return %most && now() > $heard + $lease / 30 }

sub worn_out {
    return grep { counted($_) > $most{$_} } keys %most;
}

# --- those who ask

# Its answer; nothing if that comes later.
sub answer {
    my ($who, $number, $request) = @_;
    my ($verb, $rest) = split /\0/, $request, 2;
    $rest //= '';
    return 'yes'                        if $verb eq 'on';
    if ($verb eq 'most') { %most = split /\0/, $rest; return 'known' }
    return locked(split /\0/, $rest, 2) if $verb eq 'lock';
    return opened($rest)                if $verb eq 'open';
    return written(split /\0/, $rest, 3) if $verb eq 'write';
    return having(split /\0/, $rest, 3) if $verb eq 'who';
    return join("\n", map { content("/sys/class/block/$_/stat") =~ s/\n//gr } split /\0/, $rest) if $verb eq 'counted';
    if ($verb eq 'unlock') { delete $lock{$rest}; return 'free' }
    if ($verb eq 'close')  { delete $disk{$rest}; return 'free' }
    if ($verb eq 'reread') {
        return "failed\0000\0it was let go\0$rest" if !$disk{$rest};
        return 'read' if ioctl($disk{$rest}, $REREAD, 0) || $! == EINVAL;    # that is one which can have no partitions
        return failed($rest);
    }
    if ($verb eq 'job') {
        my ($id, $seconds, $script) = split /\0/, $rest, 3;
        if (!$job{$id}) { my $trouble = started($id, $seconds, $script); return $trouble if $trouble }
        return outcome($id) if !$job{$id}{done};
        push @{$job{$id}{waiting}}, [$who, $number];
        return;
    }
    if ($verb eq 'stop') {

        # One that is told to stop before it was told to start does not start.
        $job{$rest} //= {status => 137, late => 0, waiting => []};
        stopped($job{$rest});
        return 'stopped';
    }
    return forgotten($rest) if $verb eq 'forget';
    if ($verb eq 'end') { $ending = 1; return }
    return "failed\0000\0nobody knows what that is\0$verb";
}

sub answered {
    my ($who, $number, $text) = @_;
    $client{$who}{out} .= "$number " . length($text) . "\n$text" if $client{$who};
}

sub heard {
    my ($who) = @_;
    my $one = $client{$who};
    my $got = sysread $one->{socket}, $one->{in}, 65536, length $one->{in};
    return if !defined $got && ($! == EAGAIN || $! == EINTR);
    if (!$got) { delete $client{$who}; return }
    $heard = now();
    while ($one->{in} =~ /^(\d+) (\d+)\n/ && length($one->{in}) >= $+[0] + $2) {
        my ($number, $length, $head) = ($1, $2, $+[0]);
        my $request = substr $one->{in}, $head, $length;
        substr $one->{in}, 0, $head + $length, '';
        my $text = answer($who, $number, $request);
        answered($who, $number, $text) if defined $text;
    }

    # Whoever was busy with an answer (a disk that dies takes its time) heard nobody meanwhile, and cannot say who spoke.
    $heard = now();
}

sub told {
    my ($who) = @_;
    my $one = $client{$who};
    my $put = syswrite $one->{socket}, $one->{out};
    if (defined $put) { substr $one->{out}, 0, $put, '' }
    elsif ($! != EAGAIN && $! != EINTR) { delete $client{$who} }
}

sub working { return grep { $job{$_}{done} } keys %job }

# Until what is to come next has to be looked at.
sub patience {
    my $now = now();
    my $left = $heard + $lease - $now;
    for my $job (grep { !$_->{late} } map { $job{$_} } working()) {
        $left = $job->{until} - $now if $job->{until} - $now < $left;
    }
    if (%most && working()) {
        my $look = $heard + $lease / 30 - $now;
        $look = $lease / 150 if $look < $lease / 150;
        $left = $look if $look < $left;
    }
    return $left < 0.1 ? 0.1 : $left;
}

sub looked_after {
    my $now = now();
    $ending = 1 if $now > $heard + $lease;
    for my $job (map { $job{$_} } working()) {
        if (!$job->{late} && $now > $job->{until}) { $job->{late} = 1; stopped($job) }
        stopped($job) if $ending;
    }
    if (unwatched() && working() && worn_out()) {
        for my $job (map { $job{$_} } working()) { $job->{late} = 2; stopped($job) }
    }
}

sub serve {
    my ($listening) = @_;
    my $next = 0;
    $heard = now();
    while (!$ending || working()) {
        my ($in, $out) = ('', '');
        vec($in, fileno $listening, 1) = 1;
        vec($in, fileno $job{$_}{done}, 1) = 1 for working();
        for (values %client) {
            vec($in, fileno $_->{socket}, 1) = 1;
            vec($out, fileno $_->{socket}, 1) = 1 if length $_->{out};
        }
        my $found = select $in, $out, undef, patience();
        looked_after();
        next if $found <= 0;
        if (vec $in, fileno $listening, 1) {
            if (accept my $socket, $listening) {
                fcntl $socket, F_SETFL, O_NONBLOCK | fcntl $socket, F_GETFL, 0;
                $client{++$next} = {socket => $socket, in => '', out => ''};
            }
        }
        for my $id (working()) { ended($id) if vec $in, fileno $job{$id}{done}, 1 }
        for my $who (keys %client) {
            my $number = fileno $client{$who}{socket};
            told($who) if vec $out, $number, 1;
            heard($who) if $client{$who} && vec $in, $number, 1;
        }
        looked_after();
    }

    # Whoever waits for the end hears it when all of this is done, by the end of the line.
    (%disk, %lock) = ();
    swept($folder);
}

# --- the session that leads to it

sub dialled {
    my ($where) = @_;
    socket(my $socket, PF_UNIX, SOCK_STREAM, 0) or die "no socket: $!\n";
    return connect($socket, pack_sockaddr_un("$where/line")) ? $socket : undef;
}

sub swept { system 'rm', '-rf', '--', @_ if @_ }

# Told to end; waits until it has.
sub dismissed {
    my ($where) = @_;
    my $socket = dialled($where) or return 0;
    syswrite $socket, "1 3\nend";
    while (sysread $socket, my $said, 4096) { }
    return 1;
}

# Those that work for a runner of the same run. It is gone: only one of a run is at a time, which is seen to elsewhere.
sub predecessors {
    my ($of_run) = $folder =~ m{(.*[.])};
    return glob "$of_run*";
}

sub begun {
    my ($above) = $folder =~ m{(.*)/};
    system 'mkdir', '-p', '--', $above;
    dismissed($_) for predecessors();

    # What was left by one that was killed: nobody listens there any more.
    swept(grep { -S "$_/line" && !dialled($_) } glob "$above/*");
    mkdir $folder or die "$folder: $!\n";
    socket(my $listening, PF_UNIX, SOCK_STREAM, 0) or die "no socket: $!\n";

    # It has its name once it listens: one at which nobody does is swept by whoever begins beside us.
    bind($listening, pack_sockaddr_un("$folder/new")) && listen($listening, 8) or die "$folder/new: $!\n";
    rename "$folder/new", "$folder/line" or die "$folder/line: $!\n";
    my $pid = fork() // die "no process: $!\n";
    return if $pid;
    POSIX::setsid();
    chdir '/';
    open(STDIN,  '<', '/dev/null');
    open(STDOUT, '>', '/dev/null');
    open(STDERR, '>', '/dev/null');
    serve($listening);
    POSIX::_exit(0);
}

sub poured {
    my ($from, $to) = @_;
    my $got = sysread $from, my $some, 65536;
    return if !$got;
    for (my $done = 0; $done < $got;) { $done += syswrite($to, $some, $got - $done, $done) // return }
    return 1;
}

# Where the input ends and whatever is written still arrives, the runner is gone and not the connection: then nothing
# here has any use. A connection that dropped takes both ends, if not in the same moment.
sub relayed {
    my ($socket) = @_;
    while (1) {
        my $in = '';
        vec($in, $_, 1) = 1 for fileno STDIN, fileno $socket;
        next if select($in, undef, undef, undef) <= 0;
        if (vec $in, fileno $socket, 1) { poured($socket, \*STDOUT) or last }
        next if !vec $in, fileno STDIN, 1;
        next if poured(\*STDIN, $socket);
        select undef, undef, undef, 1;
        dismissed($folder) if syswrite STDOUT, "0 0\n";
        last;
    }
}

my ($boot) = content('/proc/sys/kernel/random/boot_id') =~ /(\S+)/;
if ($mode eq 'dismiss') { dismissed($_) for predecessors(); print "matrix gone $boot\n"; exit }
if ($mode eq 'begin') {
    eval { begun(); 1 } or do { print "matrix failed $@"; exit 1 }
}
my $socket = dialled($folder);
print $socket ? "matrix holder $boot\n" : "matrix gone $boot\n";
relayed($socket) if $socket;

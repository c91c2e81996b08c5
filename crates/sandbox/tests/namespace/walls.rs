//! What a command must not be able to do: each is tried.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use garret_core::Network;

use crate::room::{Room, python};

/// Everything that is expected to fail prints nothing and gives another code than 0.
async fn is_refused(room: &Room, text: &str) {
    let (outcome, _) = room.run(text).await;
    assert!(
        outcome.code() != 0 && outcome.stdout.is_empty(),
        "`{text}` got through: {outcome:?}"
    );
}

#[tokio::test]
async fn files_of_the_host_are_not_there() {
    let room = Room::new().await;
    let secret = room.directory.path().join("depot");
    std::fs::write(&secret, "secret").unwrap();
    is_refused(&room, "cat /etc/shadow").await;
    is_refused(&room, &format!("cat {}", secret.display())).await;
    is_refused(&room, &format!("ls {}", room.directory.path().display())).await;
    for path in [
        "/root",
        "/work",
        "/sys",
        "/boot",
        "/mnt",
        "/srv",
        "/var/lib",
        "/run/docker.sock",
        "/dev/sda",
        "/dev/kmsg",
        "/dev/mem",
    ] {
        is_refused(&room, &format!("ls {path}")).await;
    }
    assert_eq!(
        room.text("ls -A /home /run /.garret").await,
        "/.garret:\n\n/home:\nagent\n\n/run:\n"
    );
    assert_eq!(room.text("cat /etc/passwd | cut -d: -f1").await, "agent\nnobody\n");
}

#[tokio::test]
async fn no_path_of_the_host_shows() {
    let room = Room::new().await;
    let name = room.directory.path().file_name().unwrap().to_str().unwrap().to_owned();
    let seen = room
        .text("cat /proc/self/mountinfo /proc/self/cgroup /proc/1/cmdline /proc/self/environ; hostname")
        .await;
    assert!(!seen.contains(&name) && seen.ends_with("garret\n"), "{seen}");
}

#[tokio::test]
async fn nothing_but_the_workspace_and_tmp_can_be_written() {
    let room = Room::new().await;
    for path in [
        "/",
        "/usr",
        "/usr/local",
        "/etc",
        "/dev",
        "/proc",
        "/run",
        "/var",
        "/home",
        "/.garret",
        "/bin",
        "/proc/sys/kernel",
    ] {
        is_refused(&room, &format!("echo x > {path}/planted")).await;
    }
    is_refused(&room, "echo x > /etc/passwd").await;
    is_refused(&room, "echo 1 > /proc/sys/net/ipv4/ip_forward").await;
    is_refused(&room, "echo b > /proc/sysrq-trigger").await;
    assert_eq!(
        room.text("echo a > /tmp/x; echo b > /var/tmp/y; cat /tmp/x /tmp/y")
            .await,
        "a\nb\n"
    );
}

#[tokio::test]
async fn processes_outside_can_be_neither_seen_nor_touched() {
    let room = Room::new().await;
    let listed = room.text("ls -d /proc/[0-9]* | wc -l").await;
    assert!(
        listed.trim().parse::<u32>().unwrap() <= 5,
        "{listed} processes are visible"
    );
    for file in ["environ", "mem", "maps", "fd/0", "exe", "cwd/x", "root/etc/shadow"] {
        is_refused(&room, &format!("cat /proc/1/{file}")).await;
    }
    let own = std::process::id();
    is_refused(&room, &format!("cat /proc/{own}/cmdline")).await;
    is_refused(&room, &format!("kill -9 {own}")).await;
    // The first process inside cannot be killed from inside, nor traced.
    assert_eq!(room.text("kill -9 1; kill -STOP 1; echo still").await, "still\n");
    let trace = python(
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nprint(libc.ptrace(16, 1, 0, 0), ctypes.get_errno())",
    );
    assert_eq!(room.text(&trace).await, "-1 1\n");
}

#[tokio::test]
async fn a_command_has_no_rights_and_cannot_get_any() {
    let room = Room::new().await;
    let status = room
        .text("grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'")
        .await;
    let zero = "0000000000000000";
    let expected =
        format!("CapInh:{zero}\nCapPrm:{zero}\nCapEff:{zero}\nCapBnd:{zero}\nCapAmb:{zero}\nNoNewPrivs:1\nSeccomp:2\n");
    assert_eq!(status, expected);
    assert_eq!(room.text("id -u; id -g; id -un").await, "1000\n1000\nagent\n");
    is_refused(&room, "unshare -r true").await;
    is_refused(&room, "unshare -m true").await;
    is_refused(&room, "mount -t tmpfs none /tmp").await;
    is_refused(&room, "umount -l /usr").await;
    is_refused(&room, "chroot /workspace /bin/sh").await;
    is_refused(&room, "insmod /workspace/x.ko").await;
    is_refused(&room, "mknod dev c 1 3").await;
    is_refused(&room, "mknod whiteout c 0 0").await;
    is_refused(&room, "mknod disk b 8 0").await;
    is_refused(&room, "chown 0:0 /workspace").await;
}

#[tokio::test]
async fn calls_to_the_kernel_that_have_no_use_are_refused() {
    let room = Room::new().await;
    let attempts = python(
        "import ctypes, socket, errno\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def call(*a):\n    r = libc.syscall(*a)\n    return errno.errorcode[ctypes.get_errno()] if r < 0 else 'ok'\n\
         def pair(*a):\n    try: socket.socketpair(*a); return 'ok'\n    except OSError as e: return errno.errorcode[e.errno]\n\
         def sock(*a):\n    try: socket.socket(*a); return 'ok'\n    except OSError as e: return errno.errorcode[e.errno]\n\
         print('keyctl', call(250, 0, -3, 1))\n\
         print('bpf', call(321, 0, 0, 0))\n\
         print('io_uring', call(425, 1, 0))\n\
         print('userfaultfd', call(323, 0))\n\
         print('perf', call(298, 0, 0, -1, -1, 0))\n\
         print('clone3', call(435, 0, 0))\n\
         print('clone', call(56, 0x10000000 | 17, 0, 0, 0, 0))\n\
         print('setns', call(308, 0, 0))\n\
         print('x32', call(0x40000000 | 39))\n\
         print('packet', sock(17, 3, 0))\n\
         print('raw', sock(2, 3, 1))\n\
         print('vsock', sock(40, 1, 0))\n\
         print('alg', sock(38, 5, 0))\n\
         print('netlink', sock(16, 3, 9), sock(16, 3, 0))\n\
         print('pair', pair(1, 1, 0), pair(38, 5, 0), pair(30, 1, 0), pair(40, 1, 0))\n\
         print('personality', *[call(135, n) for n in (0, 8, 0x20000, 0x20008, -1, 0x40000, 0x400000, 0x4000000)])\n\
         print('refused', *[call(n, 0, 0, 0, 0, 0, 0) for n in (312, 440, 310, 311, 237, 238, 239, 256, 279, 450, 139, 136)])\n\
         print('unknown', *[call(n, 0, 0, 0, 0, 0, 0) for n in (457, 458, 459, 460, 461, 467, 468, 469, 470, 471, 600, 1 << 20)])\n",
    );
    let expected = "keyctl EPERM\nbpf EPERM\nio_uring ENOSYS\nuserfaultfd EPERM\nperf EPERM\nclone3 ENOSYS\nclone EPERM\nsetns EPERM\n\
                    x32 ENOSYS\npacket EPERM\nraw EPERM\nvsock EPERM\nalg EPERM\nnetlink EPERM ok\npair ok EPERM EPERM EPERM\n\
                    personality ok ok ok ok ok EPERM EPERM EPERM\n\
                    refused EPERM EPERM EPERM EPERM EPERM EPERM EPERM EPERM EPERM EPERM EPERM EPERM\n\
                    unknown ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS\n";
    if cfg!(target_arch = "x86_64") {
        assert_eq!(room.text(&attempts).await, expected);
    }
}

#[tokio::test]
async fn a_crash_starts_no_program_of_the_host() {
    let room = Room::new().await;
    // With a limit of 1 the kernel passes a core to nobody; with 0 it would, where the host has a program for that.
    let limits = room
        .text("grep '^Max core file size' /proc/self/limits | tr -s ' '")
        .await;
    assert_eq!(limits, "Max core file size 1 1 bytes \n");
    // It stays at 1 whatever a command sets, and a program that lowers it is told that it did.
    for way in [
        "ulimit -c 0",
        "ulimit -c unlimited",
        "prlimit --pid $$ --core=0",
        "prlimit --pid $$ --core=0:1",
    ] {
        let text = format!("{way} && grep '^Max core file size' /proc/$$/limits | tr -s ' '");
        assert_eq!(room.text(&text).await, limits, "{way}");
    }
    let both = python(
        "import resource\ntry: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0))\nexcept OSError as error: print(error.errno)\n\
         print(resource.getrlimit(resource.RLIMIT_CORE), resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))",
    );
    assert_eq!(room.text(&both).await, "1\n(1, 1) None\n");
}

/// Tries to reach a listener of the host by TCP, an abstract socket of the host, and the address where clouds keep secrets.
fn reach(port: u16, name: &str) -> String {
    python(&format!(
        "import socket\n\
         def to(family, address):\n    s = socket.socket(family); s.settimeout(2)\n    try: s.connect(address); return 'reached'\n    except OSError as e: return 'refused'\n\
         print(to(socket.AF_INET, ('127.0.0.1', {port})), to(socket.AF_UNIX, chr(0) + '{name}'), to(socket.AF_INET, ('169.254.169.254', 80)))\n",
    ))
}

struct Listeners {
    tcp: TcpListener,
    abstract_socket: UnixListener,
    name: String,
}

impl Listeners {
    fn new(name: &str) -> Self {
        let name = format!("garret-test-{name}-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listeners = Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            abstract_socket: UnixListener::bind_addr(&address).unwrap(),
            name,
        };
        listeners.tcp.set_nonblocking(true).unwrap();
        listeners.abstract_socket.set_nonblocking(true).unwrap();
        listeners
    }

    fn attempt(&self) -> String {
        reach(self.tcp.local_addr().unwrap().port(), &self.name)
    }
}

#[tokio::test]
async fn the_network_is_out_of_reach() {
    let listeners = Listeners::new("none");
    let room = Room::new().await;
    assert_eq!(room.text(&listeners.attempt()).await, "refused refused refused\n");
    assert_eq!(listeners.tcp.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(
        listeners.abstract_socket.accept().unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    assert_eq!(room.text("test -e /etc/resolv.conf || echo none").await, "none\n");
}

#[tokio::test]
async fn the_network_is_reached_where_it_is_allowed_and_abstract_sockets_are_not() {
    let listeners = Listeners::new("full");
    let room = Room::with(|request| request.network = Network::Full).await;
    let seen = room.text(&listeners.attempt()).await;
    assert!(seen.starts_with("reached refused "), "{seen}");
}

#[tokio::test]
async fn commands_of_one_sandbox_reach_each_other_by_loopback() {
    let room = Room::new().await;
    let layer = room.open.create_layer().await.unwrap();
    let text = python(
        "import socket\ns = socket.create_server(('127.0.0.1', 4567))\nprint('up', flush=True)\nc, _ = s.accept()\nc.sendall(b'hello')\n",
    );
    let mut server = layer.start_process(crate::room::shell(&text)).await.unwrap();
    assert_eq!(&server.next_output().await.unwrap().bytes[..], b"up\n");
    let client = python("import socket\nprint(socket.create_connection(('127.0.0.1', 4567)).recv(9).decode())\n");
    assert_eq!(
        crate::room::run_on(&*layer, crate::room::shell(&client)).await.text(),
        "hello\n"
    );
    layer.remove().await.unwrap();
}

#[tokio::test]
async fn a_command_has_no_descriptor_but_its_own_three() {
    let room = Room::new().await;
    let text = python("import os\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd')))\n");
    // The fourth is the directory that is being listed.
    assert_eq!(room.text(&text).await, "[0, 1, 2, 3]\n");
    is_refused(&room, "ls /proc/1/fd/").await;
}

#[tokio::test]
async fn commands_end_harmlessly_that_slip_past_lists_of_patterns() {
    let room = Room::new().await;
    std::fs::write(room.bench().join("kept"), "kept").unwrap();
    let outside = room.directory.path().join("outside");
    std::fs::write(&outside, "kept").unwrap();
    let path = outside.display();
    for text in [
        format!("rm -fr {path}"),
        format!("r''m -r -f {path}"),
        format!("X=rm; $X -f {path}"),
        format!("env -C / rm -f {path}"),
        format!("sh <<'end'\nrm -f {path}\nend"),
        format!("bash <(echo rm -f {path})"),
        format!("echo cm0gLWYg | base64 -d | xargs -I@ sh -c '@ {path}'"),
        "rm -rf --no-preserve-root / 2>/dev/null; rm -rf /* 2>/dev/null".to_owned(),
    ] {
        room.run(&text).await;
    }
    assert_eq!(std::fs::read(&outside).unwrap(), b"kept");
    assert_eq!(std::fs::read(room.bench().join("kept")).unwrap(), b"kept");
    assert_eq!(room.text("cat kept").await, "kept");
}

/// Is run by the test below in a process with another umask; does nothing when it is run with all others.
#[tokio::test]
async fn is_run_with_umask_zero() {
    if std::env::var_os("GARRET_TEST_UMASK").is_none() {
        return;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("\nUmask:\t0000\n"), "{status}");
    let made = Room::new().await.text("umask; touch made; stat -c %a made").await;
    assert_eq!(made, "0022\n644\n");
}

#[test]
fn commands_have_the_usual_umask_whatever_that_of_the_program_is() {
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", "umask 0 && exec \"$0\" --exact walls::is_run_with_umask_zero"])
        .arg(std::env::current_exe().unwrap())
        .env("GARRET_TEST_UMASK", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

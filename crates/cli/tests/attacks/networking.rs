//! Getting around the proxy of a network that allows hosts by name.

use crate::Attack;
use crate::scene::{Ran, Scene};

/// A client that sends bytes to the proxy, waits a moment and prints the answer.
const CLIENT: &str = r#"
import os, socket, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["http_proxy"])
def send(text):
    with socket.create_connection((proxy.hostname, proxy.port), 3) as link:
        link.sendall(text.encode())
        link.settimeout(3)
        answer = b""
        try:
            while piece := link.recv(4096):
                answer += piece
        except OSError:
            pass
        return answer.decode(errors="replace")
"#;

/// Runs a script in Python; every name is allowed on the ports of the web, and on that of the listener of the machine.
fn attack(scene: &Scene, script: &str) -> Ran {
    let port = scene.port;
    let network = format!("*,*:{port}");
    run_on(scene, &network, &script.replace("PORT", &port.to_string()))
}

fn run_on(scene: &Scene, network: &str, script: &str) -> Ran {
    let script = format!("{CLIENT}{script}\nprint('end')\n");
    let arguments = ["-w", "box", "run", "--timeout", "30s", "--network", network];
    scene.garret(&[&arguments[..], &["python3", "-c", &script]].concat())
}

fn ended(_: &Scene, ran: &Ran) -> bool {
    ran.stdout.trim_end().ends_with("end")
}

fn was_refused(scene: &Scene, ran: &Ran) -> bool {
    ended(scene, ran) && ran.stderr.contains("refused by `network.allow`")
}

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "reach the machine past the proxy by sockets",
        run: |scene| {
            attack(
                scene,
                "
for family, address in [(socket.AF_INET, ('127.0.0.1', PORT)), (socket.AF_INET, ('0.0.0.0', PORT)), (socket.AF_INET6, ('::1', PORT)),
                        (socket.AF_INET, ('192.0.2.1', 80)), (socket.AF_INET, ('8.8.8.8', 53)), (socket.AF_INET, ('169.254.169.254', 80))]:
    for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:
        try:
            with socket.socket(family, kind) as link:
                link.settimeout(2)
                link.connect(address)
                link.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
                print('reached', address, link.recv(100))
        except OSError:
            pass
for family, kind, protocol in [(socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 0)]:
    try:
        socket.socket(family, kind, protocol)
        print('reached', family)
    except OSError:
        pass
try:
    print('reached', socket.getaddrinfo('example.org', 80))
except OSError:
    pass",
            )
        },
        holds: |scene, ran| ended(scene, ran) && !ran.stdout.contains("reached"),
    },
    Attack {
        name: "reach the machine through the proxy by its addresses",
        run: |scene| {
            attack(
                scene,
                "
for host in ['127.0.0.1', '127.1', '0', '0.0.0.0', '0x7f000001', '2130706433', '[::1]', '[::ffff:127.0.0.1]', '[::]', '169.254.169.254',
             'localhost', 'LOCALHOST.', 'a.localhost', 'user@127.0.0.1', 'x:y@localhost', 'localhost%00.example.org', 'example.org@127.0.0.1']:
    send(f'GET http://{host}:PORT/ HTTP/1.1\\r\\nHost: example.org\\r\\nConnection: close\\r\\n\\r\\n')
    send(f'CONNECT {host}:PORT HTTP/1.1\\r\\nHost: example.org\\r\\n\\r\\n')
    send(f'GET / HTTP/1.1\\r\\nHost: {host}:PORT\\r\\nConnection: close\\r\\n\\r\\n')",
            )
        },
        holds: was_refused,
    },
    Attack {
        name: "reach the machine by a name of its own",
        run: |scene| {
            attack(
                scene,
                "
names = [socket.gethostname(), 'localhost.localdomain', 'ip6-localhost', 'ip6-loopback', 'host.docker.internal', 'gateway', '_gateway']
for host in names:
    send(f'GET http://{host}:PORT/ HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n')",
            )
        },
        holds: ended,
    },
    Attack {
        name: "hide a request for the machine in another",
        run: |scene| {
            attack(
                scene,
                "
hidden = 'GET http://127.0.0.1:PORT/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'
for frame in ['Content-Length: 0\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n', 'Transfer-Encoding: xchunked\\r\\n\\r\\n0\\r\\n\\r\\n',
              'Content-Length: 0\\r\\nContent-Length: 5\\r\\n\\r\\n', 'X:\\r\\n\\r\\n', 'Upgrade: h2c\\r\\nConnection: Upgrade\\r\\n\\r\\n']:
    send('POST http://127.0.0.1:PORT/ HTTP/1.1\\r\\nHost: 127.0.0.1:PORT\\r\\n' + frame + hidden)",
            )
        },
        holds: was_refused,
    },
    Attack {
        name: "use a tunnel for another port or host than its rule allows",
        run: |scene| {
            let script = "
for host in ['example.org:22', 'example.org:25', 'example.org:PORT', 'sub.example.org:443', 'example.org.evil.example:443', 'xexample.org:443']:
    print(send(f'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n').split('\\r\\n')[0])";
            run_on(scene, "example.org", &script.replace("PORT", &scene.port.to_string()))
        },
        holds: |scene, ran| was_refused(scene, ran) && ran.stdout.matches("403 Refused").count() == 6,
    },
    Attack {
        name: "carry another protocol, or TLS to another server, in a tunnel",
        run: |scene| {
            // The only host that surely listens is the one of the machine, which a rule may allow.
            let script = "
import ssl
link = socket.create_connection((proxy.hostname, proxy.port), 3)
link.sendall(b'CONNECT localhost:PORT HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
link.recv(4096)
link.sendall(b'GET / HTTP/1.0\\r\\n\\r\\n')
link.settimeout(3)
try:
    print('canary' if b'canary' in link.recv(4096) else 'closed')
except OSError:
    print('closed')";
            // On a port that nobody listens on, so that the listener of the scene is not counted.
            run_on(scene, "localhost:9", &script.replace("PORT", "9"))
        },
        holds: |scene, ran| ended(scene, ran) && ran.stdout.contains("closed"),
    },
    Attack {
        name: "read a secret that is bound to a host",
        run: |scene| {
            let network = format!(
                r#"{{"secrets": [{{"host": "localhost:9", "value": "file:{}"}}]}}"#,
                scene.text("outside/secret")
            );
            run_on(
                scene,
                &network,
                "
import pathlib
print(os.environ)
for path in pathlib.Path('/garret-network').rglob('*'):
    print(path.read_text(errors='replace')[-2000:])
for path in ['/proc/self/environ', '/proc/1/environ', '/proc/1/cmdline']:
    try:
        print(open(path).read())
    except OSError:
        pass
print(send('GET http://localhost:9/ HTTP/1.1\\r\\nHost: localhost:9\\r\\nConnection: close\\r\\n\\r\\n'))
print(send('TRACE http://localhost:9/ HTTP/1.1\\r\\nHost: localhost:9\\r\\nConnection: close\\r\\n\\r\\n'))",
            )
        },
        holds: ended,
    },
    Attack {
        name: "take the port of the proxy, or change what programs trust",
        run: |scene| {
            attack(
                scene,
                "
try:
    taken = socket.create_server((proxy.hostname, proxy.port))
    print('taken')
except OSError:
    pass
try:
    open('/garret-network/ca-bundle.pem', 'a').write('x')
    print('written')
except OSError:
    pass",
            )
        },
        holds: |scene, ran| ended(scene, ran) && !ran.stdout.contains("taken") && !ran.stdout.contains("written"),
    },
    Attack {
        name: "exhaust the proxy by connections that say nothing",
        run: |scene| {
            attack(
                scene,
                "
links = []
try:
    for _ in range(900):
        links.append(socket.create_connection((proxy.hostname, proxy.port), 1))
except OSError:
    pass",
            )
        },
        holds: ended,
    },
];

//! Getting around the proxy of a network that allows hosts by name.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::Attack;
use crate::scene::{CANARY, Ran, Scene};
use crate::web_server::{WebRequest, WebServer, ok};

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
    run_on(scene, &format!("*,*:{}", scene.port), script)
}

fn run_on(scene: &Scene, network: &str, script: &str) -> Ran {
    let words = words_of_run(scene, network, script);
    scene.garret(&words.each_ref().map(String::as_str))
}

/// Returns the words that run a script in Python with a network; `PORT` in it is that of the listener of the machine.
fn words_of_run(scene: &Scene, network: &str, script: &str) -> [String; 10] {
    let script = script.replace("PORT", &scene.port.to_string());
    let script = format!("{CLIENT}{script}\nprint('end')\n");
    let words = [
        "-w",
        "box",
        "run",
        "--timeout",
        "60s",
        "--network",
        network,
        "python3",
        "-c",
        &script,
    ];
    words.map(str::to_owned)
}

/// Runs a script in Python with the rights to reach a server, whose certificate the machine trusts.
fn run_with_server(scene: &Scene, server: &WebServer, network: &str, script: &str) -> Ran {
    scene.put("certificate.pem", &server.certificate);
    let trusted = format!("SSL_CERT_FILE={}", scene.text("certificate.pem"));
    let script = script.replace("SERVER", &server.port.to_string());
    let words = words_of_run(scene, network, &script);
    scene.garret_with(&[&trusted], &words.each_ref().map(String::as_str))
}

/// Sends the secret that a request brought back in the form that its path names.
fn echo_secret(request: &WebRequest) -> Vec<Vec<u8>> {
    let whole = match request.header("authorization") {
        "" => "no secret came",
        whole => whole,
    };
    let value = whole.trim_start_matches("Bearer ");
    let (first, second) = value.split_at(value.len() / 2);
    let zip = |text: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let chunk = |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let head =
        |line: &str, headers: &str| format!("HTTP/1.1 {line}\r\nConnection: close\r\n{headers}\r\n").into_bytes();
    let text = |text: String| vec![head("200 OK", ""), text.into_bytes()];
    match request.path().trim_start_matches('/') {
        "header" => vec![head(
            "200 OK",
            &format!("X-Echo: {whole}\r\nSet-Cookie: a={value}; b={value}\r\n"),
        )],
        "name" => vec![head("200 OK", &format!("X-{value}: 1\r\nX-Echo: {value}\r\n"))],
        "reason" => vec![head(&format!("500 {value}"), &format!("X-Echo: {value}\r\n"))],
        "early" => vec![
            head("103 Early", &format!("Link: {value}\r\n")),
            head("200 OK", &format!("X-Echo: {value}\r\n")),
        ],
        "chunked" => vec![
            head("200 OK", "Transfer-Encoding: chunked\r\n"),
            chunk(first.as_bytes()),
            chunk(second.as_bytes()),
            b"0\r\n\r\n".to_vec(),
        ],
        "trailer" => vec![
            head("200 OK", "Transfer-Encoding: chunked\r\nTrailer: X-Echo\r\n"),
            chunk(value.as_bytes()),
            format!("0\r\nX-Echo: {value}\r\n\r\n").into_bytes(),
        ],
        "gzip" => vec![
            head("200 OK", &format!("Content-Encoding: gzip\r\nX-Echo: {value}\r\n")),
            zip(whole),
        ],
        "transfer" => vec![
            head("200 OK", "Transfer-Encoding: gzip, chunked\r\n"),
            chunk(&zip(whole)),
            b"0\r\n\r\n".to_vec(),
        ],
        "base64" => text(format!("{} {}", STANDARD.encode(whole), STANDARD.encode(value))),
        "base64url" => text(format!(
            "{} {}",
            URL_SAFE_NO_PAD.encode(whole),
            URL_SAFE_NO_PAD.encode(value)
        )),
        "percent" => text(format!("?authorization=Bearer%20{value}&value=%5B{value}%5D")),
        _ => text(format!("{whole}\n{}", request.head)),
    }
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
                if kind == socket.SOCK_DGRAM and address[0][0] not in '0:' and address[0] != '127.0.0.1':
                    # Nobody need answer: there is a way out.
                    print('reached', address)
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
        name: "hide a request in one to an allowed server",
        run: |scene| {
            let server = WebServer::start(|_| vec![ok("welcome")]);
            let script = r"
hidden = 'GET http://127.0.0.1:PORT/hidden HTTP/1.1\r\nHost: x\r\n\r\n'
for frame in ['Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
              'Content-Length: 0\r\nContent-Length: 5\r\n\r\n', 'X:\r\n\r\n', 'Upgrade: h2c\r\nConnection: Upgrade\r\n\r\n',
              'Content-Length: 0\r\n\r\n']:
    print(send('POST http://localhost:SERVER/ HTTP/1.1\r\nHost: localhost:SERVER\r\n' + frame + hidden))";
            let mut ran = run_with_server(scene, &server, &format!("localhost:{}", server.port), script);
            if server.requests().iter().any(|request| request.head.contains("hidden")) {
                ran.stdout.insert_str(0, "the hidden request arrived\n");
            }
            ran
        },
        // The last one is two requests in a row, of which the first is allowed.
        holds: |scene, ran| {
            was_refused(scene, ran)
                && ran.stdout.contains("welcome")
                && !ran.stdout.contains("the hidden request arrived")
        },
    },
    Attack {
        name: "use a tunnel for another port or host than its rule allows",
        run: |scene| {
            let script = "
for host in ['example.org:22', 'example.org:25', 'example.org:PORT', 'sub.example.org:443', 'example.org.evil.example:443', 'xexample.org:443']:
    print(send(f'CONNECT {host} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n').split('\\r\\n')[0])";
            run_on(scene, "example.org", script)
        },
        holds: |scene, ran| was_refused(scene, ran) && ran.stdout.matches("403 Refused").count() == 6,
    },
    Attack {
        name: "carry another protocol, or TLS to another server, in a tunnel",
        run: |scene| {
            // The server welcomes TLS clients that name it, and shows the canary to all other clients.
            let server = WebServer::start(|request| match request.server_name.as_deref() {
                Some("localhost") => vec![ok("welcome")],
                _ => vec![ok(CANARY)],
            });
            let network = format!(
                r#"{{"allow": [{{"host": "localhost:{}", "private": true}}]}}"#,
                server.port
            );
            let script = r"
import ssl
GET = b'GET / HTTP/1.0\r\n\r\n'
def open_tunnel():
    link = socket.create_connection((proxy.hostname, proxy.port), 3)
    link.settimeout(15)
    link.sendall(b'CONNECT localhost:SERVER HTTP/1.1\r\nHost: localhost:SERVER\r\n\r\n')
    head = b''
    while not head.endswith(b'\r\n\r\n'):
        head += link.recv(1)
    return link
def read_answer(link):
    answer = b''
    while piece := link.recv(4096):
        answer += piece
    return answer.decode(errors='replace')
def make_hello(name):
    sent = ssl.MemoryBIO()
    try:
        careless.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
careless = ssl.create_default_context()
careless.check_hostname = False
careless.verify_mode = ssl.CERT_NONE
with ssl.create_default_context().wrap_socket(open_tunnel(), server_hostname='localhost') as link:
    link.sendall(GET)
    print(read_answer(link))
for first in [GET, b'SSH-2.0-x\r\n\r\n', b'\x16\x03\x01\x00\x02\x01\x00\r\n\r\n', GET + make_hello('localhost')]:
    link = open_tunnel()
    try:
        link.sendall(first)
        answer = read_answer(link)
        print(answer if 'HTTP' in answer else 'refused')
    except OSError:
        print('refused')
for name in ['other.example', 'localhost.other.example', '127.0.0.1', None]:
    try:
        with careless.wrap_socket(open_tunnel(), server_hostname=name) as link:
            link.sendall(GET)
            print(read_answer(link))
    except OSError:
        print('refused')";
            run_with_server(scene, &server, &network, script)
        },
        holds: |scene, ran| {
            let count = |word| ran.stdout.matches(word).count();
            was_refused(scene, ran) && count("welcome") == 1 && count("refused") == 8
        },
    },
    Attack {
        name: "be sent on by an allowed server to the machine or to another port",
        run: |scene| {
            let server = WebServer::start(|request| {
                let place = request.path().trim_start_matches('/');
                let head = format!("HTTP/1.1 307 Elsewhere\r\nLocation: {place}\r\n");
                vec![format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n").into_bytes()]
            });
            // Every name may be asked for on the port of the listener of the machine, so that addresses are refused, too.
            let network = format!("*,*:{},localhost:{}", scene.port, server.port);
            let script = "
import subprocess
for place in ['http://127.0.0.1:PORT/', 'http://localhost:PORT/', 'https://localhost:PORT/', 'http://[::1]:PORT/', 'http://2130706433:PORT/',
              'http://localhost.localdomain:PORT/', '//127.0.0.1:PORT/', 'http://169.254.169.254/']:
    for scheme in ['http', 'https']:
        curl = ['curl', '-sS', '--location', '--globoff', '--max-time', '9', '--noproxy', '', '-w', 'followed %{num_redirects};']
        print(subprocess.run(curl + [scheme + '://localhost:SERVER/' + place], capture_output=True, text=True))";
            run_with_server(scene, &server, &network, script)
        },
        holds: |scene, ran| was_refused(scene, ran) && ran.stdout.matches("followed 1;").count() == 16,
    },
    Attack {
        name: "reach the machine by a name that leads to it",
        run: |scene| {
            scene.put(
                "hosts",
                "127.0.0.1 localhost localhost.localdomain four.example site.four.example\n::1 six.example ip6-localhost\n\
                 ::ffff:127.0.0.1 mapped.example\n0.0.0.0 any.example\n169.254.169.254 cloud.example\n\
                 10.0.0.1 host.docker.internal\n",
            );
            let script = r"
for host in ['four.example', 'site.four.example', 'six.example', 'mapped.example', 'any.example', 'cloud.example',
             'localhost.localdomain', 'ip6-localhost', 'host.docker.internal']:
    send(f'GET http://{host}:PORT/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n')
    print(send(f'CONNECT {host}:PORT HTTP/1.1\r\nHost: {host}\r\n\r\n').split('\r\n')[0])";
            let network = format!("*,*:{}", scene.port);
            let words = words_of_run(scene, &network, script);
            scene.garret_with_hosts("hosts", &words.each_ref().map(String::as_str))
        },
        holds: |scene, ran| was_refused(scene, ran) && ran.stdout.matches("403 Refused").count() == 9,
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
        name: "have a server send back the secret that is bound to it",
        run: |scene| {
            let server = WebServer::start(echo_secret);
            let secret = scene.text("outside/secret");
            let network = format!(
                r#"{{"secrets": [{{"host": "localhost:{}", "prefix": "Bearer ", "value": "file:{secret}"}}]}}"#,
                server.port
            );
            let script = r"
import base64, re, subprocess, zlib
def decode(function, word):
    try:
        return function(word).decode(errors='replace')
    except Exception:
        return ''
for way in ['header', 'name', 'reason', 'early', 'body', 'chunked', 'trailer', 'gzip', 'transfer', 'base64', 'base64url', 'percent']:
    ran = subprocess.run(['curl', '-sSi', '--raw', '--max-time', '9', '--noproxy', '', 'https://localhost:SERVER/' + way], capture_output=True)
    text = (ran.stdout + ran.stderr).decode(errors='replace')
    print(way, text)
    print(urllib.parse.unquote(text))
    for word in re.findall('[A-Za-z0-9+/_-]{6,}', text):
        print(decode(base64.urlsafe_b64decode, word.replace('+', '-').replace('/', '_') + '=' * (-len(word) % 4)))
    at = ran.stdout.find(b'\x1f\x8b')
    while at >= 0:
        print(decode(zlib.decompressobj(31).decompress, ran.stdout[at:]))
        at = ran.stdout.find(b'\x1f\x8b', at + 1)
for link in ['SERVER/body?', 'SERVER/%62ody']:
    for extra in [['-H', 'Authorization: mine'], ['-H', 'Accept-Encoding: gzip'], ['-H', 'Range: bytes=9-30'], ['-X', 'TRACE'], ['-X', 'OPTIONS']]:
        print(subprocess.run(['curl', '-sSi', '--max-time', '9', '--noproxy', '', *extra, 'https://localhost:' + link], capture_output=True, text=True))";
            run_with_server(scene, &server, &network, script)
        },
        // The server did get the secret, and what the proxy showed of it is the mask.
        holds: |scene, ran| {
            let masks = ran.stdout.matches("[secret]").count();
            ended(scene, ran) && masks >= 15 && !ran.stdout.contains("no secret came")
        },
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
    pass
for link in links:
    link.close()
print(send('GET http://127.0.0.1:PORT/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'))",
            )
        },
        // Once they are gone, it answers again.
        holds: |scene, ran| ended(scene, ran) && ran.stdout.contains("403 Refused"),
    },
];

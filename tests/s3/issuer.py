"""Hands out keys to a web identity over TLS, by way of moto: `issuer.py PORT CERTIFICATE`.

The certificate of who vouches for it is written to CERTIFICATE before it listens.
"""

import datetime
import ipaddress
import os
import ssl
import sys
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from moto.server import create_backend_app
from werkzeug.serving import run_simple

ADDRESS = "127.0.0.1"


def named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificate(subject, key, issuer, issuer_key, extension):
    now = datetime.datetime.now(datetime.timezone.utc)
    begun = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    return begun.add_extension(extension, critical=False).sign(issuer_key, hashes.SHA256())


def text(made):
    return made.public_bytes(serialization.Encoding.PEM)


def context(place):
    root_key, own_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name = named("Garret's tests")
    root = certificate(root_name, root_key, root_name, root_key, x509.BasicConstraints(ca=True, path_length=None))
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(ADDRESS))])
    own = certificate(named("issuer"), own_key, root_name, root_key, alternative)
    secret = own_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as room:
        chain = os.path.join(room, "chain.pem")
        with open(chain, "wb") as file:
            file.write(secret + text(own))
        made.load_cert_chain(chain)
    with open(place, "wb") as file:
        file.write(text(root))
    return made


if __name__ == "__main__":
    port, place = sys.argv[1:]
    application = create_backend_app("sts")
    run_simple(ADDRESS, int(port), application, threaded=True, ssl_context=context(place))

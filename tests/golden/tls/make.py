"""Makes the certificates of this folder anew: python3 make.py (needs the package `cryptography`).

Two authorities, `ca` and `other`. Of `ca`: `relay` for localhost and 127.0.0.1, `name` for another
name, `expired`. Their keys protect nothing.
"""

import datetime
import ipaddress
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HERE = pathlib.Path(__file__).parent
BEGIN = datetime.datetime(2020, 1, 1)


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def build(subject, issuer, key, signer, year, extensions):
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(datetime.datetime(year, 1, 1))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, hashes.SHA256())


def write(file, *parts):
    (HERE / f"{file}.pem").write_bytes(b"".join(parts))


def authority(file):
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    extensions = [(x509.BasicConstraints(ca=True, path_length=0), True), (usage, True)]
    subject = f"Interlink test authority {file}"
    write(file, build(subject, subject, key, key, 2120, extensions).public_bytes(serialization.Encoding.PEM))
    return subject, key


def relay(file, issuer, year, names):
    key = ec.generate_private_key(ec.SECP256R1())
    extensions = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.SubjectAlternativeName(names), False),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
    ]
    certificate = build(f"Interlink test {file}", issuer[0], key, issuer[1], year, extensions)
    write(
        file,
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


authority("other")
ca = authority("ca")
here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
relay("relay", ca, 2120, here)
relay("expired", ca, 2021, here)
relay("name", ca, 2120, [x509.DNSName("relay.example")])

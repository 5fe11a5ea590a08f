"""What signs requests as the senders of webhooks do, with the standard library of Python: independent of semel and of
OpenSSL. Ed25519 is computed as RFC 8032 describes it, with whole numbers."""
import base64
import hashlib
import hmac
import http.client
import json
import time

# --- Ed25519 ------------------------------------------------------------------------------------------------------

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def point_add(a, b):
    (x1, y1), (x2, y2) = a, b
    product = D * x1 * x2 * y1 * y2 % P
    return ((x1 * y2 + x2 * y1) * pow(1 + product, P - 2, P) % P, (y1 * y2 + x1 * x2) * pow(1 - product, P - 2, P) % P)


def point_times(number, point):
    result = (0, 1)
    while number:
        if number & 1:
            result = point_add(result, point)
        point = point_add(point, point)
        number >>= 1
    return result


def base_point():
    y = 4 * pow(5, P - 2, P) % P
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    return (x if x % 2 == 0 else P - x, y)


def encode_point(point):
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


def ed25519_keys(seed):
    """The number, the second half of the hash, and the public key."""
    digest = hashlib.sha512(seed).digest()
    number = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | 1 << 254
    return number, digest[32:], encode_point(point_times(number, base_point()))


def ed25519_sign(seed, message):
    number, nonce_key, public = ed25519_keys(seed)
    nonce = int.from_bytes(hashlib.sha512(nonce_key + message).digest(), "little") % ORDER
    commitment = encode_point(point_times(nonce, base_point()))
    challenge = int.from_bytes(hashlib.sha512(commitment + public + message).digest(), "little")
    return commitment + ((nonce + challenge * number) % ORDER).to_bytes(32, "little")


# --- signatures ---------------------------------------------------------------------------------------------------

def mac(secret, content, algorithm="sha256"):
    return hmac.new(secret, content, algorithm)


def now():
    return int(time.time())


def b64(data):
    return base64.b64encode(data).decode()


def standard(body, id_, secrets=(), seeds=(), at=None, prefix="webhook-"):
    at = str(now() if at is None else at)
    content = f"{id_}.{at}.".encode() + body
    listed = ["v1," + b64(mac(base64.b64decode(secret.removeprefix("whsec_")), content).digest()) for secret in secrets]
    listed += ["v1a," + b64(ed25519_sign(seed, content)) for seed in seeds]
    return {prefix + "id": id_, prefix + "timestamp": at, prefix + "signature": " ".join(listed)}


def stripe(body, *secrets, at=None):
    at = str(now() if at is None else at)
    listed = [f"v1={mac(secret.encode(), at.encode() + b'.' + body).hexdigest()}" for secret in secrets]
    return {"Stripe-Signature": ",".join([f"t={at}", "v0=" + "0" * 64, *listed])}


def github(body, secret, delivery="72d3162e-cc78-11e3-81ab-4c9367dc0958", event="push"):
    return {"X-Hub-Signature-256": "sha256=" + mac(secret.encode(), body).hexdigest(), "X-GitHub-Delivery": delivery,
            "X-GitHub-Event": event}


def shopify(body, secret, id_="b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", topic="orders/create"):
    return {"X-Shopify-Hmac-Sha256": b64(mac(secret.encode(), body).digest()), "X-Shopify-Webhook-Id": id_,
            "X-Shopify-Topic": topic, "X-Shopify-Shop-Domain": "example.myshopify.com"}


def slack(body, secret, at=None):
    at = str(now() if at is None else at)
    return {"X-Slack-Signature": "v0=" + mac(secret.encode(), b"v0:" + at.encode() + b":" + body).hexdigest(),
            "X-Slack-Request-Timestamp": at}


# --- requests -----------------------------------------------------------------------------------------------------

class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Gateway:
    """A client of a gateway on this port, with one connection for each request."""

    def __init__(self, port, deadline_s=60):
        self.port = port
        self.deadline_s = deadline_s

    def post(self, path, body=b"", headers=None, method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.deadline_s)
        try:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

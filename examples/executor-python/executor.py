"""An executor of the kind "weather" in Python's standard library: a small NATS client and the wire contract of
docs/executors.md. Calls come as JSON because its tools are registered with dispatch {"encoding": "json"}.

    YM_NATS_URL=nats://127.0.0.1:4222 YM_NATS_PASSWORD_FILE=.yard/secrets/nats-executor-weather python3 executor.py
"""

import hashlib
import json
import os
import random
import secrets
import signal
import socket
import sys
import threading
import time
from urllib.parse import urlparse

KIND = "weather"
USER = f"executor-{KIND}"
STREAM = "YM_TOOL_" + KIND.upper().replace("-", "_")
INBOX = "_INBOX_" + USER.replace("-", "_")
ACK_WAIT_S = float(os.environ.get("YM_EXECUTOR_ACK_WAIT_MS", "30000")) / 1000
MOST_ATTEMPTS = 4
MOST_WAIT_S = 10  # between two attempts to connect again
FIRST = {"Nats-Expected-Last-Subject-Sequence": "0", "Ym-Encoding": "json"}


class Message:
    def __init__(self, subject, reply, headers, status, data):
        self.subject, self.reply, self.headers, self.status, self.data = subject, reply, headers, status, data


class Nats:
    """As much of the client protocol as an executor needs: publish, subscribe, ask. One thread reads, and connects again
    when the connection is lost; until then whatever sends or asks raises OSError."""

    def __init__(self, url, user, password_file):
        self.address, self.user, self.password_file = urlparse(url), user, password_file
        self.sending = threading.Lock()
        self.handlers = {}  # by number: subject and what takes its messages
        self.asking = set()
        self.next_id = 1
        self.socket = None
        self._connect()
        threading.Thread(target=self._read, daemon=True).start()

    def _connect(self):
        # Read each time: a server that starts anew may have new passwords.
        with open(self.password_file, encoding="utf-8") as file:
            password = file.read().strip()
        connection = socket.create_connection((self.address.hostname, self.address.port or 4222), timeout=5)
        try:
            lines = connection.makefile("rb")
            lines.readline()  # INFO
            options = {"user": self.user, "pass": password, "verbose": False, "pedantic": False, "headers": True,
                       "no_responders": True, "lang": "python", "version": "1", "protocol": 1}
            connection.sendall(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
            answer = lines.readline()
            if not answer.startswith(b"PONG"):
                raise ConnectionError(answer.decode().strip() or "the server closed the connection")
            connection.settimeout(None)
            with self.sending:
                for number, (subject, _) in list(self.handlers.items()):
                    connection.sendall(f"SUB {subject} {number}\r\n".encode())
                self.file, self.socket = lines, connection
        except BaseException:
            connection.close()
            raise

    def _connect_again(self):
        wait, said = 0.5, ""
        while True:
            time.sleep(wait * random.uniform(0.5, 1))
            try:
                self._connect()
            except OSError as error:
                if str(error) != said:
                    print(f"not connected: {error}; trying again", file=sys.stderr, flush=True)
                said, wait = str(error), min(wait * 2, MOST_WAIT_S)
            else:
                print("connected again", file=sys.stderr, flush=True)
                return

    def _send(self, data):
        with self.sending:
            if self.socket is None:
                raise ConnectionError("not connected")
            self.socket.sendall(data)

    def publish(self, subject, data=b"", reply="", headers=None):
        target = f"{subject} {reply}".strip()
        if headers:
            block = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
            head = block.encode()
            self._send(f"HPUB {target} {len(head)} {len(head) + len(data)}\r\n".encode() + head + data + b"\r\n")
        else:
            self._send(f"PUB {target} {len(data)}\r\n".encode() + data + b"\r\n")

    def subscribe(self, subject, handler):
        with self.sending:
            number, self.next_id = str(self.next_id), self.next_id + 1
            self.handlers[number] = (subject, handler)
        self._send(f"SUB {subject} {number}\r\n".encode())
        return number

    def ask(self, subject, data=b"", headers=None, timeout=5.0):
        """The first answer; raises OSError: TimeoutError, or ConnectionError when the connection is lost meanwhile."""
        inbox = f"{INBOX}.{secrets.token_hex(8)}"
        come, box = threading.Event(), []

        def take(message):
            box.append(message)
            come.set()

        self.asking.add(come)
        try:
            self.subscribe(inbox, take)
            self.publish(subject, data, inbox, headers)
            if not come.wait(timeout):
                raise TimeoutError(subject)
            if not box:
                raise ConnectionError("connection lost")
            return box[0]
        finally:
            self.asking.discard(come)
            self._forget(inbox)

    def _forget(self, inbox):
        with self.sending:
            for number in [number for number, (subject, _) in self.handlers.items() if subject == inbox]:
                del self.handlers[number]
                try:
                    if self.socket is not None:
                        self.socket.sendall(f"UNSUB {number}\r\n".encode())
                except OSError:
                    pass  # Gone with its connection; the thread that reads sees it too.

    def _read(self):
        while True:
            try:
                self._read_until_lost()
            except (OSError, ValueError) as error:
                print(f"connection lost: {error}; trying again", file=sys.stderr, flush=True)
            with self.sending:
                self.socket.close()
                self.socket = None
            for come in list(self.asking):
                come.set()
            self._connect_again()

    def _read_until_lost(self):
        for line in iter(self.file.readline, b""):
            words = line.decode().split()
            if not words:
                continue
            if words[0] == "PING":
                self._send(b"PONG\r\n")
            elif words[0] == "-ERR":
                print("nats:", line.decode().strip(), file=sys.stderr, flush=True)
            elif words[0] == "MSG":
                data = self._body(int(words[-1]))
                self._deliver(words[1], words[2], words[3] if len(words) == 5 else "", b"", data)
            elif words[0] == "HMSG":
                head, total = int(words[-2]), int(words[-1])
                data = self._body(total)
                self._deliver(words[1], words[2], words[3] if len(words) == 6 else "", data[:head], data[head:])
        raise ConnectionError("the server closed it")

    def _body(self, size):
        data = self.file.read(size + 2)
        if len(data) < size + 2:
            raise ConnectionError("the server closed it in the middle of a message")
        return data[:size]

    def _deliver(self, subject, number, reply, head, data):
        lines = head.decode().split("\r\n")
        status = lines[0].split()[1] if len(lines[0].split()) > 1 else ""
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        _, handler = self.handlers.get(number, (None, None))
        if handler:
            handler(Message(subject, reply, headers, status, data))


class Executor:
    def __init__(self, nats, tools):
        self.nats, self.tools = nats, tools
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.stopping = threading.Event()
        self.cancelled = {}
        nats.subscribe("ym.cancel.>", lambda message: self._cancel(message.subject))

    def _cancel(self, subject):
        run = subject[len("ym.cancel."):]
        self.cancelled.setdefault(run, threading.Event()).set()

    def serve(self):
        """One call at a time: pull, claim, run, store the result, acknowledge."""
        request = json.dumps({"batch": 1, "expires": 5_000_000_000}).encode()
        while not self.stopping.is_set():
            try:
                message = self.nats.ask(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.work", request, timeout=7)
                if not message.status:
                    self.work(message)
                elif message.status == "503":  # 404, 408: nothing to do
                    time.sleep(0.5)
            except TimeoutError:
                continue
            except OSError:  # Not connected. A call that was under way and is not acknowledged comes again.
                time.sleep(0.5)

    def work(self, message):
        if message.headers.get("Ym-Encoding") != "json":
            return self.nats.publish(message.reply, b"+TERM not json")
        call = json.loads(message.data)
        tenant = message.subject.split(".")[3]
        # $JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<time>.<pending>
        _, _, _, _, deliveries, stream_sequence, delivery_sequence, *_ = message.reply.split(".")
        me = f"{self.name}#{stream_sequence}.{delivery_sequence}.{deliveries}"
        attempt, outcome = self.claim(tenant, call, me, stream_sequence)
        if attempt is None and outcome is None:
            return self.nats.publish(message.reply, b"+ACK")  # another message of the same call sees to it
        if outcome is None:
            done = threading.Event()

            def beat():
                while not done.wait(ACK_WAIT_S / 3):
                    try:
                        self.nats.publish(message.reply, b"+WPI")
                    except OSError:
                        pass  # the next one may get through

            threading.Thread(target=beat, daemon=True).start()
            started = time.monotonic()
            outcome = self.run(tenant, call)
            outcome["durationMs"] = round((time.monotonic() - started) * 1000)
            done.set()
        self.store(tenant, call, attempt or 0, outcome)
        self.nats.publish(message.reply, b"+ACK")

    def claim(self, tenant, call, me, stream_sequence):
        """(attempt, None): run it; (None, outcome): it must not run; (None, None): not ours to answer."""
        nonce = hashlib.sha256(call["nonce"].encode()).hexdigest()[:16]
        for attempt in range(1, MOST_ATTEMPTS + 1):
            subject = f"ym.claim.{tenant}.{call['runId']}.{call['callId']}.{nonce}.{attempt}"
            body = {"attempt": attempt, "executor": me, "atMs": str(int(time.time() * 1000))}
            answer = json.loads(self.nats.ask(subject, json.dumps(body).encode(), FIRST).data)
            if "error" not in answer:
                return attempt, None
            held = self.nats.ask(f"$JS.API.DIRECT.GET.YM_CLAIM.{subject}")
            holder = held.data.decode(errors="replace")
            if me in holder:
                return attempt, None
            if f"#{stream_sequence}." not in holder:
                return None, None
            # An earlier delivery of this message died. What may not run twice is given up.
            if call.get("effect") not in ("read", "idempotent"):
                break
        return None, {"ok": False, "reason": "interrupted", "outcomeUnknown": call.get("effect") != "read",
                      "output": "The executor died while this call ran. It was not started again."}

    def run(self, tenant, call):
        tool = self.tools.get(call["name"])
        if tool is None:
            return {"ok": False, "reason": "refused", "output": f"This executor has no tool {call['name']}."}
        stop = self.cancelled.setdefault(f"{tenant}.{call['runId']}", threading.Event())
        box = []

        def body():
            try:
                box.append({"ok": True, "output": tool(json.loads(call["argumentsJson"]), stop)})
            except Exception as error:  # what went wrong is for the model to read
                box.append({"ok": False, "reason": "failed", "output": str(error)})

        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        deadline = time.monotonic() + call.get("timeoutMs", 120_000) / 1000
        while thread.is_alive() and not stop.is_set() and time.monotonic() < deadline:
            thread.join(0.05)
        if stop.is_set():
            return {"ok": False, "reason": "cancelled", "output": "Cancelled."}
        if thread.is_alive():
            stop.set()
            return {"ok": False, "reason": "timeout", "output": "Ended: the time for this call is up.",
                    "outcomeUnknown": call.get("effect") == "unsafe"}
        return box[0]

    def store(self, tenant, call, attempt, outcome):
        subject = f"ym.res.{tenant}.{call['runId']}.{call['callId']}.{call['nonce']}"
        result = {"runId": call["runId"], "callId": call["callId"], "argsHash": call.get("argsHash", ""),
                  "historySeq": call.get("historySeq", "0"), "attempt": attempt, **outcome}
        body = json.dumps(result).encode()
        while True:
            try:
                self.nats.ask(subject, body, FIRST)  # an error says that there is a result already, which counts
                return
            except OSError:  # what was done is told, also when the connection is back only later
                time.sleep(1)


def forecast(args, stop):
    days = args.get("days", 1)
    for _ in range(args.get("think_s", 0) * 20):
        if stop.wait(0.05):
            return "stopped"
    return f"{args['city']}: sun for {days} day{'s' if days != 1 else ''}"


def main():
    try:
        nats = Nats(os.environ["YM_NATS_URL"], USER, os.environ["YM_NATS_PASSWORD_FILE"])
    except OSError as error:
        sys.exit(f"cannot connect to {os.environ['YM_NATS_URL']}: {error}")
    executor = Executor(nats, {"weather_forecast": forecast})
    signal.signal(signal.SIGTERM, lambda *_: executor.stopping.set())
    print("ready", flush=True)
    executor.serve()


if __name__ == "__main__":
    main()

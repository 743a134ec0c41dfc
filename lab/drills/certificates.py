"""A certificate authority made on the spot, and a relay on loopback that shows its certificates before a plain port."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
import threading
from pathlib import Path

HOST = "localhost"
"""The name in the servers' certificate. They listen on 127.0.0.1, a name that it does not have."""


class Authority:
    """A certificate authority in a folder that it makes, and which ends after ``days``."""

    def __init__(self, folder: Path, days: int = 30) -> None:
        self._folder = folder
        folder.mkdir()
        of = ("-keyout", "ca.key", "-out", "ca.crt", "-days", str(days), "-subj", "/CN=ca")
        self._openssl("req", "-x509", *_NEW_KEY, *of)

    @property
    def certificate(self) -> Path:
        return self._folder / "ca.crt"

    def issue(self, name: str, *, host: str | None = None, key_password: str | None = None, days: int = 30) -> Path:
        """A PEM file of a key and its certificate for ``CN=name``; of a server where there is a host. With days below 0
        it has run out."""
        extensions = self._folder / "extensions"
        extensions.write_text(f"subjectAltName=DNS:{host}" if host else "extendedKeyUsage=clientAuth")
        key = _NEW_KEY if key_password is None else (*_NEW_KEY[:-1], "-passout", f"pass:{key_password}")
        self._openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        by = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", extensions.name)
        self._openssl("x509", "-req", "-in", f"{name}.csr", *by, "-days", str(days), "-out", f"{name}.crt")
        whole = self._folder / f"{name}.pem"
        whole.write_text((self._folder / f"{name}.key").read_text() + (self._folder / f"{name}.crt").read_text())
        return whole

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self._folder, check=True, capture_output=True)


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class TlsRelay:
    """Takes TLS off and passes everything on to a plain port of this machine."""

    def __init__(self, server: Path, port: int, to: int) -> None:
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.show(server)
        self._port, self._to = port, to
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tls-relay", daemon=True)
        self._listening = threading.Event()
        self._passing = set[asyncio.Task[None]]()
        """A loop does not hold its tasks, and one whose connections are both paused is held by nothing else."""

    def __enter__(self) -> TlsRelay:
        self._thread.start()
        assert self._listening.wait(10.0)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10.0)

    def show(self, server: Path) -> None:
        """Show this certificate to who connects from now on."""
        self._context.load_cert_chain(server)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", self._port, ssl=self._context)
        self._listening.set()
        await self._stop.wait()
        server.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            await asyncio.gather(_pump(reader, to_server), _pump(from_server, writer))
        finally:
            for one in (to_server, writer):
                one.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        writer.close()

"""Dawn, the WebGPU of Chromium, under Node: npm's package `webgpu`, which `make dawn` installs.

Its backend `null` compiles and runs nothing. `vulkan` needs a driver that Dawn takes. SwiftShader,
which comes with Chromium, is one. Mesa's software Vulkan 22.3.6 is not: Dawn says "Vulkan
shaderUniform*ArrayDynamicIndexing required", and gives no adapter.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / ".node" / "node_modules" / "webgpu" / "index.js"
SWIFTSHADER = Path("/usr/lib/chromium/vk_swiftshader_icd.json")

_HEAD = """\
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
const { create, globals } = await import(pathToFileURL(process.env.DAWN));
Object.assign(globalThis, globals);
const gpu = create([`backend=${process.env.DAWN_BACKEND}`]);
const bundle = (folder) => async (name) => {
  const bytes = await readFile(`${folder}/${name}`);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
};
const answer = async () => {
"""
_TAIL = """
};
const found = await answer();
process.stdout.write(`\\n${JSON.stringify(found)}`, () => process.exit(0));
"""


@functools.lru_cache(maxsize=2)
def missing(backend: str) -> str | None:
    """Why Dawn cannot be used here, or None."""
    if shutil.which("node") is None:
        return "Dawn needs node, which is not installed"
    if not MODULE.is_file():
        return "Dawn is npm's package webgpu, which `make dawn` installs"
    script = "return (await gpu.requestAdapter()) !== null;"
    try:
        found = run(script, Path("/"), backend, timeout=60)
    except RuntimeError as error:
        return f"Dawn does not run here: {error}"
    return None if found else "Dawn finds no adapter that it takes; that of Chromium would do"


def run(script: str, folder: Path, backend: str, timeout: float = 600) -> Any:
    """What the body of an async function of JavaScript returns, which knows `gpu`, `bundle`,
    `readFile` and `folder`."""
    own = {"DAWN": str(MODULE), "DAWN_BACKEND": backend}
    if SWIFTSHADER.is_file() and "VK_DRIVER_FILES" not in os.environ:
        own["VK_DRIVER_FILES"] = own["VK_ICD_FILENAMES"] = str(SWIFTSHADER)
    found = subprocess.run(
        ["node", "--input-type=module", "-"],
        input=f"{_HEAD}const folder = {json.dumps(str(folder))};\n{script}{_TAIL}",
        capture_output=True, text=True, timeout=timeout, cwd=ROOT, env=os.environ | own,
    )  # fmt: skip
    if found.returncode:
        raise RuntimeError(found.stderr.strip()[-2000:])
    return json.loads(found.stdout.rpartition("\n")[2])

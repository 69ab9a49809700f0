/* Runs compiled functions of contraflow in a browser, by its own WebGPU.

A folder that `step.export_web(folder, predict)` has written is loaded and used so:

    import { load } from "./model/contraflow.js";

    const { step, predict } = await load("./model");
    await step.run({ x: floats, y: integers });       // tensors in row-major order, or nested arrays
    const loss = await step.item("result");
    const { data, shape } = await step.read("model.0.weight");
    step.write("optimizer.lr", 1e-4);                 // from the next run on

`load(folder)` gives an object with a program for each function. Programs of one folder share their
state. A program has

    run(inputs)         runs it once, after all that was asked for before. `inputs` has values by
                        name; a tensor that is not among them stays as it was. An index out of range
                        is a RangeError with op and line, and nothing has changed then.
    read(name)          { data, shape, dtype } of a result, an input, a gradient or state; the number
                        itself where it is one. `data` is a Float32Array, Int32Array or, for bool, a
                        Uint8Array.
    item(name)          the number that a tensor with one element holds
    write(name, value)  sets an input or state from the next run on
    inputs, results, state   the names that there are

The results of a function that returns a dict are called by its keys, others `result`, `result[0]`.
Nothing is downloaded but the files of the folder. `load(read, { gpu })` takes an async function that
gives the bytes of a file by its name, and another WebGPU than `navigator.gpu`.
*/

const FORMAT = 1;
const ALIGNED = 256; // bytes at which a dynamic or bound part of a uniform buffer may begin
const SEPARATOR = /^\/\/ ---- .*\n/m;
const FAILURE = 8; // bytes: the number of a line plus 1, and the index
const USAGE = { mapRead: 0x1, copySrc: 0x4, copyDst: 0x8, uniform: 0x40, storage: 0x80 };
const COMPUTE = 0x4; // of shader stages
const READ = 0x1; // of map modes

export async function load(folder, { gpu = globalThis.navigator?.gpu } = {}) {
  const read = typeof folder === "function" ? folder : (name) => download(folder, name);
  const names = ["plan.json", "kernels.wgsl", "weights.bin"];
  const [json, texts, weights] = await Promise.all(names.map(read));
  const decoder = new TextDecoder();
  const plan = JSON.parse(decoder.decode(json));
  if (plan.format !== FORMAT) {
    throw new Error(`contraflow: the bundle has format ${plan.format}, not ${FORMAT}. Export it again.`);
  }
  const session = new Session(await open(gpu, plan), plan, weights);
  await session.compile(decoder.decode(texts).split(SEPARATOR).slice(1));
  const programs = {};
  for (const [name, entry] of Object.entries(plan.programs)) {
    programs[name] = new Program(name, entry, session);
  }
  return programs;
}

async function download(folder, name) {
  const answer = await fetch(`${String(folder).replace(/\/$/, "")}/${name}`);
  if (!answer.ok) throw new Error(`contraflow: ${answer.url} cannot be read: ${answer.status}.`);
  return answer.arrayBuffer();
}

/** A device whose buffers are large enough for a plan. */
async function open(gpu, plan) {
  if (!gpu) {
    throw new Error("contraflow: this browser has no WebGPU. Use a current Chrome, Edge, Safari or Firefox.");
  }
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
  if (!adapter) throw new Error("contraflow: WebGPU finds no adapter on this machine.");
  const largest = Math.max(...plan.buffers.map((buffer) => buffer.bytes));
  const requiredLimits = {};
  for (const [name, guaranteed] of [
    ["maxStorageBufferBindingSize", 2 ** 27],
    ["maxBufferSize", 2 ** 28],
  ]) {
    if (largest > adapter.limits[name]) {
      throw new Error(
        `contraflow: a tensor of ${largest} bytes is larger than this adapter allows, ` +
          `${adapter.limits[name]}. Use a smaller batch.`,
      );
    }
    if (largest > guaranteed) requiredLimits[name] = largest;
  }
  return adapter.requestDevice({ requiredLimits });
}

/** What the programs of a bundle share: the device, buffers, host scalars, and the order of work. */
class Session {
  constructor(device, plan, weights) {
    this.device = device;
    this.plan = plan;
    this.problem = null; // the first error that WebGPU has reported
    device.lost.then((info) => (this.problem ??= `the device was lost: ${info.message}`));
    device.onuncapturederror = (event) => (this.problem ??= event.error.message);
    this.buffers = plan.buffers.map((buffer) => this.#buffer(buffer, weights));
    this.cells = plan.cells.map((cell) => (cell.value === undefined ? null : parsed(cell.kind, cell.value)));
    this.cellNumbers = {};
    plan.cells.forEach((cell, i) => {
      if (cell.value !== undefined) this.cellNumbers[cell.name] = i;
    });
    this.failure = this.memory(FAILURE, USAGE.storage);
    this.last = Promise.resolve();
  }

  memory(size, usage) {
    return this.device.createBuffer({ size, usage: usage | USAGE.copySrc | USAGE.copyDst });
  }

  #buffer({ bytes, weights: part }, weights) {
    const buffer = this.memory(bytes, USAGE.storage);
    if (part) this.device.queue.writeBuffer(buffer, 0, weights, part[0], part[1]);
    return buffer;
  }

  async compile(texts) {
    this.kernels = await Promise.all(
      this.plan.kernels.map(async ({ name, bindings }, i) => {
        const entries = bindings.map(([binding, type]) => ({ binding, visibility: COMPUTE, buffer: { type } }));
        const layout = this.device.createBindGroupLayout({ entries });
        const module = this.device.createShaderModule({ code: texts[i] });
        const pipeline = await this.device.createComputePipelineAsync({
          layout: this.device.createPipelineLayout({ bindGroupLayouts: [layout] }),
          compute: { module, entryPoint: name },
        });
        return { pipeline, layout };
      }),
    );
  }

  /** Do something after all that was asked for before. */
  inOrder(work) {
    const done = this.last.then(work).then((result) => {
      this.check();
      return result;
    });
    this.last = done.catch(() => {});
    return done;
  }

  check() {
    if (this.problem !== null) throw new Error(`contraflow: ${this.problem}`);
  }

  /** The bytes of a buffer. */
  async fetch(buffer, size) {
    const usage = USAGE.mapRead | USAGE.copyDst;
    const staging = this.device.createBuffer({ size, usage });
    const encoder = this.device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffer, 0, staging, 0, size);
    this.device.queue.submit([encoder.finish()]);
    await staging.mapAsync(READ);
    const bytes = staging.getMappedRange().slice(0);
    staging.destroy();
    return bytes;
  }
}

class Program {
  #entry;
  #session;
  #dispatches;
  #scalars; // where the host scalars of kernels lie: [offset, [[code, row], ...]]
  #scalarsBuffer;
  #staged = {}; // what is written of buffers in parts
  #missing; // inputs that were never given
  #rows; // the numbers of the last run

  constructor(name, entry, session) {
    this.name = name;
    this.#entry = entry;
    this.#session = session;
    this.#missing = new Set(this.inputs.filter((input) => entry.tensors[input].role === "input"));
    this.#bind();
  }

  get inputs() {
    const { tensors } = this.#entry;
    return Object.keys(tensors).filter((name) => tensors[name].role !== undefined);
  }

  get results() {
    return Object.keys(this.#entry.results);
  }

  get state() {
    return [...Object.keys(this.#session.plan.state), ...Object.keys(this.#session.cellNumbers)];
  }

  /** Make the bind groups; kernels that take the same host scalars share them. */
  #bind() {
    const { device, buffers, kernels, failure } = this.#session;
    const places = new Map();
    let scalarBytes = 0;
    let argumentBytes = 0;
    for (const { scalars, arguments: integers } of this.#entry.dispatches) {
      const key = JSON.stringify(scalars);
      if (scalars.length && !places.has(key)) {
        const size = scalars.reduce((sum, [code]) => sum + widthOf(code), 0);
        places.set(key, { at: scalarBytes, size, scalars });
        scalarBytes += aligned(size);
      }
      argumentBytes += aligned(4 * integers.length);
    }
    this.#scalars = [...places.values()];
    this.#scalarsBuffer = this.#session.memory(Math.max(scalarBytes, ALIGNED), USAGE.uniform);
    const block = this.#session.memory(Math.max(argumentBytes, ALIGNED), USAGE.uniform);
    const content = new Int32Array(Math.max(argumentBytes, ALIGNED) / 4);
    let at = 0;
    this.#dispatches = this.#entry.dispatches.map((dispatch) => {
      const { kernel, groups, arguments: integers, scalars } = dispatch;
      content.set(integers, at / 4);
      const resources = [{ buffer: block, offset: at, size: 4 * integers.length }];
      at += aligned(4 * integers.length);
      if (scalars.length) {
        const place = places.get(JSON.stringify(scalars));
        resources.push({ buffer: this.#scalarsBuffer, offset: place.at, size: place.size });
      }
      resources.push(...dispatch.buffers.map((i) => ({ buffer: buffers[i] })));
      const { bindings } = this.#session.plan.kernels[kernel];
      if (resources.length < bindings.length) resources.push({ buffer: failure });
      const entries = bindings.map(([binding], i) => ({ binding, resource: resources[i] }));
      const { pipeline, layout } = kernels[kernel];
      return { pipeline, group: device.createBindGroup({ layout, entries }), groups };
    });
    device.queue.writeBuffer(block, 0, content);
  }

  run(inputs = {}) {
    const given = Object.entries(inputs).map(([name, value]) => this.#checked(name, value));
    return this.#session.inOrder(() => this.#run(given));
  }

  async #run(given) {
    const { device, cells, failure, buffers, plan } = this.#session;
    for (const write of given) write();
    if (this.#missing.size) {
      throw new Error(`contraflow: ${this.name} was not given ${[...this.#missing].join(", ")}.`);
    }
    const rows = computed(this.#entry.numbers, cells);
    this.#writeScalars(rows);
    const { checked } = this.#entry;
    if (checked) {
      this.#submit(this.#dispatches.slice(0, checked), []);
      const [mark, index] = new Int32Array(await this.#session.fetch(failure, FAILURE));
      if (mark) {
        device.queue.writeBuffer(failure, 0, new Int32Array(2));
        throw this.#failed(mark - 1, index);
      }
    }
    const copies = this.#entry.copies.map(([from, to]) => [buffers[from], buffers[to], plan.buffers[to].bytes]);
    this.#submit(this.#dispatches.slice(checked), copies);
    const values = this.#entry.updates.map(([, row]) => rows[row]);
    this.#entry.updates.forEach(([cell], i) => {
      cells[cell] = plan.cells[cell].kind === "int" ? wholeOf(values[i]) : Number(values[i]);
    });
    this.#rows = rows;
  }

  #submit(dispatches, copies) {
    const { device } = this.#session;
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (const { pipeline, group, groups } of dispatches) {
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(...groups);
    }
    pass.end();
    for (const [from, to, size] of copies) encoder.copyBufferToBuffer(from, 0, to, 0, size);
    device.queue.submit([encoder.finish()]);
  }

  #writeScalars(rows) {
    if (!this.#scalars.length) return;
    const content = new DataView(new ArrayBuffer(this.#scalarsBuffer.size));
    for (const { at, scalars } of this.#scalars) {
      let place = at;
      for (const [code, row] of scalars) {
        if (code === "f") content.setFloat32(place, Number(rows[row]), true);
        else if (code === "q") content.setBigInt64(place, BigInt.asIntN(64, wholeOf(rows[row])), true);
        else content.setInt32(place, this.#narrow(rows[row]), true);
        place += widthOf(code);
      }
    }
    this.#session.device.queue.writeBuffer(this.#scalarsBuffer, 0, content.buffer);
  }

  #narrow(number) {
    const whole = Math.trunc(Number(number));
    if (whole === (whole | 0)) return whole;
    throw new RangeError(`contraflow: ${this.name}: webgpu holds integers in 32 bits, and ${whole} does not fit.`);
  }

  #failed(line, index) {
    const messages = this.#entry.failures[line];
    if (typeof messages[index] === "string") return new RangeError(messages[index]);
    const [text, shift] = messages[index < 0 ? "negative" : "index"];
    return new RangeError(text.replaceAll("{}", index + shift));
  }

  write(name, value) {
    const write = this.#checked(name, value);
    return this.#session.inOrder(write);
  }

  /** A function that writes a value which was found well. */
  #checked(name, value) {
    const { cells, cellNumbers, plan } = this.#session;
    const tensor = this.#entry.tensors[name] ?? plan.state[name];
    const cell = tensor?.cell ?? (tensor ? undefined : cellNumbers[name]);
    if (cell !== undefined) {
      const number = given(name, plan.cells[cell].kind, value);
      return () => {
        cells[cell] = number;
        this.#missing.delete(name);
      };
    }
    if (!tensor || (this.#entry.tensors[name] && !tensor.role)) {
      throw new Error(
        `contraflow: ${this.name} takes no ${name}. It takes ${this.inputs.join(", ") || "nothing"}; ` +
          `its state is ${this.state.join(", ")}.`,
      );
    }
    const words = wordsOf(name, tensor, value);
    return () => {
      this.#missing.delete(name);
      if (tensor.role !== "unused" && words.length) this.#put(tensor, words);
    };
  }

  #put({ buffer, shape, strides, offset = 0 }, words) {
    const { device, buffers, plan } = this.#session;
    if (!strides) {
      device.queue.writeBuffer(buffers[buffer], 0, words);
      return;
    }
    const whole = (this.#staged[buffer] ??= new Uint32Array(plan.buffers[buffer].bytes / 4));
    const bits = new Uint32Array(words.buffer);
    positions(shape, strides, offset).forEach((at, i) => (whole[at] = bits[i]));
    device.queue.writeBuffer(buffers[buffer], 0, whole);
  }

  read(name) {
    const { tensors, results } = this.#entry;
    const { plan, cells, cellNumbers, buffers } = this.#session;
    const found = results[name] ?? tensors[name] ?? plan.state[name];
    const cell = found?.cell ?? (found ? undefined : cellNumbers[name]);
    if (found === undefined && cell === undefined) {
      const known = [...this.results, ...Object.keys(tensors), ...this.state];
      throw new Error(`contraflow: ${this.name} has no ${name}. It has ${known.join(", ")}.`);
    }
    return this.#session.inOrder(async () => {
      if (cell !== undefined) return Number(cells[cell]);
      if (found.row !== undefined) {
        if (!this.#rows) throw new Error(`contraflow: ${this.name} has not run yet.`);
        return Number(this.#rows[found.row]);
      }
      if (found.role === "unused") throw new Error(`contraflow: ${this.name} does not use ${name}.`);
      const { bytes } = plan.buffers[found.buffer];
      return shown(found, await this.#session.fetch(buffers[found.buffer], bytes));
    });
  }

  async item(name) {
    const found = await this.read(name);
    if (typeof found === "number") return found;
    if (found.data.length !== 1) {
      throw new Error(`contraflow: ${name} has ${found.data.length} elements, not one.`);
    }
    return found.data[0];
  }
}

// --- elements ----------------------------------------------------------------------------------

const STORED = { float32: Float32Array, int32: Int32Array, int64: Int32Array, uint32: Uint32Array, bool: Uint32Array };

const count = (shape) => shape.reduce((product, n) => product * n, 1);
const aligned = (size) => Math.ceil(size / ALIGNED) * ALIGNED;
const widthOf = (code) => (code === "q" ? 8 : 4);

/** Where the elements of a view lie, in row-major order. */
function positions(shape, strides, offset) {
  let found = [offset];
  shape.forEach((n, dim) => {
    found = found.flatMap((at) => Array.from({ length: n }, (_, i) => at + i * strides[dim]));
  });
  return found;
}

/** The elements that a user has given, as they are stored. */
function wordsOf(name, { dtype, shape }, value) {
  const flat = typeof value === "number" ? [value] : ArrayBuffer.isView(value) ? value : [value].flat(Infinity);
  if (flat.length !== count(shape)) {
    throw new Error(
      `contraflow: ${name} has shape [${shape}], ${count(shape)} elements, and was given ${flat.length}.`,
    );
  }
  const kind = STORED[dtype] ?? Float32Array; // a tensor that is not used has no dtype
  if (flat instanceof kind && dtype !== "bool") return flat.slice();
  if (dtype === "bool") return kind.from(flat, (x) => (x ? 1 : 0));
  const numbers = Array.from(flat, Number);
  if (kind !== Float32Array) {
    const wrong = numbers.find((x) => x !== (kind === Int32Array ? x | 0 : x >>> 0));
    if (wrong !== undefined) {
      throw new RangeError(`contraflow: ${name} is ${dtype}, of 32 bits here, and ${wrong} does not fit.`);
    }
  }
  return kind.from(numbers);
}

/** The elements of a tensor, from the bytes of its buffer. */
function shown({ dtype, shape, strides, offset = 0 }, bytes) {
  const whole = new STORED[dtype](bytes);
  const data = strides
    ? whole.constructor.from(positions(shape, strides, offset), (at) => whole[at])
    : whole.slice(0, count(shape));
  return { data: dtype === "bool" ? Uint8Array.from(data) : data, shape, dtype };
}

// --- host scalars: floats are numbers, integers are BigInts -------------------------------------

const NOT_FINITE = { inf: Infinity, "-inf": -Infinity, nan: NaN };
const parsed = (kind, x) => (kind === "int" ? BigInt(x) : NOT_FINITE[x] ?? x);

function given(name, kind, value) {
  const wrong = kind === "int" ? !Number.isInteger(Number(value)) : typeof value !== "number";
  if (wrong) throw new Error(`contraflow: ${name} is a number, ${kind}, and was given ${value}.`);
  return kind === "int" ? BigInt(value) : value;
}

/** A number as an integer of 64 bits. */
function wholeOf(x) {
  if (typeof x !== "number") return BigInt(x);
  if (Number.isNaN(x)) return 0n;
  const [least, most] = [-(2n ** 63n), 2n ** 63n - 1n];
  if (x >= 2 ** 63) return most;
  return x < -(2 ** 63) ? least : BigInt(Math.trunc(x));
}

const isFloat = (x) => typeof x === "number";
const alike = (f) => (a, b) => (typeof a === typeof b ? f(a, b) : f(Number(a), Number(b)));
const ofFloat = (f) => (x) => f(Number(x));

function toEven(x) {
  const near = Math.round(x);
  return Math.abs(x % 1) === 0.5 && near % 2 !== 0 ? near - 1 : near;
}

function power(a, b) {
  if (isFloat(a)) return a ** b;
  if (b >= 0n) return a ** b;
  return a === 1n || a === -1n ? a ** (-b) : 0n; // the truncated fraction
}

function floorDivide(a, b) {
  if (!b) return isFloat(a) ? 0 : 0n;
  if (isFloat(a)) return Math.floor(a / b);
  return a / b - (a % b !== 0n && a < 0n !== b < 0n ? 1n : 0n);
}

const FUNCTIONS = {
  add: alike((a, b) => a + b),
  sub: alike((a, b) => a - b),
  mul: alike((a, b) => a * b),
  div: (a, b) => Number(a) / Number(b),
  floordiv: alike(floorDivide),
  mod: alike((a, b) => (b ? ((a % b) + b) % b : isFloat(a) ? 0 : 0n)),
  fmod: (a, b) => Number(a) % Number(b),
  neg: (x) => -x,
  abs: (x) => (x < 0 ? -x : x),
  max: alike((a, b) => (a !== a || a > b ? a : b)),
  min: alike((a, b) => (a !== a || a < b ? a : b)),
  muladd: (a, b, c) => Number(a) * Number(b) + Number(c),
  pow: alike(power),
  sqrt: ofFloat(Math.sqrt),
  exp: ofFloat(Math.exp),
  log: ofFloat(Math.log),
  sin: ofFloat(Math.sin),
  cos: ofFloat(Math.cos),
  tanh: ofFloat(Math.tanh),
  floor: ofFloat(Math.floor),
  ceil: ofFloat(Math.ceil),
  trunc: ofFloat(Math.trunc),
  rint: ofFloat(toEven),
  isnan: (x) => x !== x,
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  ge: (a, b) => a >= b,
  eq: (a, b) => a == b,
  ne: (a, b) => a != b,
  and: (a, b) => (typeof a === "boolean" ? a && b : a & b),
  or: (a, b) => (typeof a === "boolean" ? a || b : a | b),
  xor: (a, b) => (typeof a === "boolean" ? a !== b : a ^ b),
  not: (x) => !x,
  select: (condition, a, b) => (condition ? a : b),
  to_float: Number,
  to_float32: (x) => Math.fround(Number(x)),
  to_int: wholeOf,
  to_bool: Boolean,
};

/** The numbers that rows stand for. */
function computed(rows, cells) {
  const known = [];
  for (const [name, ...operands] of rows) {
    if (name === "cell") known.push(cells[operands[0]]);
    else if (name === "float" || name === "int") known.push(parsed(name, operands[0]));
    else if (name === "bool") known.push(operands[0]);
    else known.push(FUNCTIONS[name](...operands.map((i) => known[i])));
  }
  return known;
}

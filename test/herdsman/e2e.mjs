// Runs zigbee-herdsman, the client inside Zigbee2MQTT, against a radio on a TCP
// port and checks what it sees. The radio is the simulator; its control socket
// makes the virtual device join and report.
//
//   node e2e.mjs --url tcp://127.0.0.1:8888 --control /tmp/radio.sock
//
// Options:
//   --dir DIR        folder with node_modules (what install.sh prints)
//   --steps LIST     of resumed,join,reports,cut,restored,steady (default: all but
//                    steady, in this order)
//   --reports N      messages in the reports step, half of them before a restart (1000)
//   --cut-reports N  messages in the cut step (300)
//   --until FILE     ends the steady step, once it is there
//   --timeout S      for the whole run (120)
//   --verbose        the client's log on standard error
//
// Prints one line of JSON. Exit status 0: all as it should be; 1: not.
import {existsSync, mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {createRequire} from 'node:module';
import net from 'node:net';
import {tmpdir} from 'node:os';
import path from 'node:path';
import {execFileSync} from 'node:child_process';
import {parseArgs} from 'node:util';

const {values: opt} = parseArgs({
    options: {
        url: {type: 'string'},
        control: {type: 'string'},
        dir: {type: 'string'},
        steps: {type: 'string', default: 'resumed,join,reports,cut,restored'},
        reports: {type: 'string', default: '1000'},
        'cut-reports': {type: 'string', default: '300'},
        until: {type: 'string', default: ''},
        timeout: {type: 'string', default: '120'},
        verbose: {type: 'boolean', default: false},
    },
});
if (!opt.url || !opt.control) {
    console.error('usage: node e2e.mjs --url tcp://HOST:PORT --control PATH [options]');
    process.exit(2);
}

const dir = opt.dir ?? execFileSync(path.join(import.meta.dirname, 'install.sh'), {encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit']}).trim();
const require = createRequire(path.join(dir, 'package.json'));
const {Controller, setLogger} = require('zigbee-herdsman');

// The client's log: its end is what a failure needs.
const log = [];
const began = performance.now();
const line = (level) => (message, ns) => {
    const text = `${((performance.now() - began) / 1000).toFixed(3)} ${level} ${ns}: ${typeof message === 'function' ? message() : message}`;
    if (opt.verbose) console.error(text);
    log.push(text);
    if (log.length > 80) log.shift();
};
setLogger({debug: line('debug'), info: line('info'), warning: line('warning'), error: line('error')});

class Failure extends Error {}
const check = (ok, what) => {
    if (!ok) throw new Failure(what);
};
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** One command to the radio; its answer's data. */
function radio(command) {
    return new Promise((resolve, reject) => {
        const socket = net.connect(opt.control);
        let text = '';
        socket.on('error', reject);
        socket.on('data', (chunk) => {
            text += chunk;
            if (!text.endsWith('\n')) return;
            socket.end();
            const answer = JSON.parse(text);
            if (answer.ok) resolve(answer.data);
            else reject(new Failure(`radio: ${command}: ${answer.error}`));
        });
        socket.write(`${command}\n`);
    });
}

/** A relay whose connections can be cut, to stand for a network that fails. */
class Relay {
    constructor(target) {
        this.target = target;
        this.sockets = new Set();
        this.server = net.createServer((client) => {
            const upstream = net.connect(Number(target.port), target.hostname);
            for (const [from, to] of [[client, upstream], [upstream, client]]) {
                this.sockets.add(from);
                from.setNoDelay(true);
                from.pipe(to);
                from.on('error', () => {});
                from.on('close', () => {
                    this.sockets.delete(from);
                    to.destroy();
                });
            }
        });
    }
    async listen() {
        await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
        return `tcp://127.0.0.1:${this.server.address().port}`;
    }
    cut() {
        for (const socket of this.sockets) socket.destroy();
    }
    close() {
        this.cut();
        this.server.close();
    }
}

const work = mkdtempSync(path.join(tmpdir(), 'herdsman-'));
const result = {};
let client;

/** Starts a client, which keeps its database and backup from the one before. */
async function start(url) {
    const t0 = performance.now();
    const controller = new Controller({
        serialPort: {path: url, adapter: 'ember'},
        databasePath: path.join(work, 'database.db'),
        databaseBackupPath: path.join(work, 'database.db.backup'),
        backupPath: path.join(work, 'coordinator_backup.json'),
        network: {
            panID: 0x1a62,
            extendedPanID: [0xdd, 0xdd, 0xdd, 0xdd, 0xdd, 0xdd, 0xdd, 0xdd],
            networkKey: [1, 3, 5, 7, 9, 11, 13, 15, 0, 2, 4, 6, 8, 10, 12, 13],
            channelList: [11],
        },
        adapter: {},
        acceptJoiningDeviceHandler: () => true,
    });
    client = {controller, numbers: [], waiting: [], disconnected: false, interviews: []};
    const mine = client;
    const wake = () => {
        for (const fn of mine.waiting) fn();
    };
    controller.on('message', (m) => {
        if (m.type === 'attributeReport' && m.cluster === 'genAnalogInput') mine.numbers.push(m.data.presentValue);
        wake();
    });
    controller.on('deviceInterview', (e) => {
        mine.interviews.push(e);
        wake();
    });
    controller.on('adapterDisconnected', () => {
        mine.disconnected = true;
        wake();
    });
    mine.until = (condition, seconds, what) =>
        new Promise((resolve, reject) => {
            const timer = setTimeout(() => reject(new Failure(`${what}: not within ${seconds} s`)), seconds * 1000);
            const look = () => {
                if (!condition()) return;
                clearTimeout(timer);
                mine.waiting = mine.waiting.filter((fn) => fn !== look);
                resolve();
            };
            mine.waiting.push(look);
            look();
        });
    const how = await controller.start();
    return {how, ms: Math.round(performance.now() - t0)};
}

/** Exactly the numbers first..last, in this order. */
function exactly(numbers, first, last, what) {
    numbers.forEach((n, i) => check(n === first + i, `${what}: message ${i} has number ${n}, want ${first + i}`));
    check(numbers.length === last - first + 1, `${what}: ${numbers.length} messages, want ${last - first + 1}`);
}

const steps = {
    async resumed() {
        const {how, ms} = await start(opt.url);
        check(how === 'resumed', `start() gave '${how}', want 'resumed'`);
        const version = await client.controller.getCoordinatorVersion();
        check(version.meta.ezsp === 13, `EZSP version ${version.meta.ezsp}, want 13`);
        result.resumed = {ms, firmware: version.meta.revision};
    },

    async join() {
        await client.controller.permitJoin(true);
        const t0 = performance.now();
        await radio('join');
        await client.until(() => client.interviews.some((e) => e.status !== 'started'), 30, 'interview');
        const end = client.interviews.at(-1);
        check(end.status === 'successful', `interview ${end.status}`);
        const d = end.device;
        const got = {
            type: d.type,
            modelID: d.modelID,
            manufacturerName: d.manufacturerName,
            powerSource: d.powerSource,
            zclVersion: d.zclVersion,
            softwareBuildID: d.softwareBuildID,
            endpoints: d.endpoints.map((e) => [e.ID, e.profileID, e.deviceID, e.inputClusters, e.outputClusters]),
        };
        const want = {
            type: 'EndDevice',
            modelID: 'virtual-counter',
            manufacturerName: 'gateway tests',
            powerSource: 'Battery',
            zclVersion: 8,
            softwareBuildID: '1.0.0',
            endpoints: [[1, 0x0104, 0x000c, [0, 12], [3]]],
        };
        check(JSON.stringify(got) === JSON.stringify(want), `interview found ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
        await client.controller.permitJoin(false);
        result.join = {ms: Math.round(performance.now() - t0), ieee: d.ieeeAddr};
    },

    // Half of the messages, a restart of the client, the other half.
    async reports() {
        const total = Number(opt.reports);
        const half = Math.floor(total / 2);
        result.reports = {received: 0, ms: []};
        for (const [count, last] of [[half, false], [total - half, true]]) {
            client.numbers.length = 0;
            const t0 = performance.now();
            const job = await radio(`report ${count}`);
            await client.until(() => client.numbers.length >= count, 60, `${count} messages`);
            await sleep(200); // one too many would come now
            exactly(client.numbers, job.first, job.last, 'reports');
            result.reports.received += client.numbers.length;
            result.reports.ms.push(Math.round(performance.now() - t0) - 200);
            if (!last) {
                await client.controller.stop();
                const {how, ms} = await start(opt.url);
                check(how === 'resumed', `restart gave '${how}', want 'resumed'`);
                result.reports.restart = ms;
            }
        }
        check(result.reports.received === total, `${result.reports.received} messages, want ${total}`);
    },

    // The TCP link is cut while messages flow.
    async cut() {
        const total = Number(opt['cut-reports']);
        await client.controller.stop();
        const relay = new Relay(new URL(opt.url));
        const url = await relay.listen();
        try {
            check((await start(url)).how === 'resumed', 'start behind the relay');
            const sessions = (await radio('stats')).reports.length;
            const job = await radio(`report ${total} 5ms`);
            await client.until(() => client.numbers.length >= total / 3, 60, 'messages before the cut');
            relay.cut();
            await client.until(() => client.disconnected, 10, 'the client notices the cut');
            const before = client.numbers.slice();
            await client.controller.stop();

            const {how, ms} = await start(url);
            check(how === 'resumed', `start after the cut gave '${how}', want 'resumed'`);
            await radio('resume');
            await client.until(() => client.numbers.at(-1) >= job.last, 60, 'messages after the cut');
            const after = client.numbers.slice();
            await sleep(200); // acknowledgements of the last ones
            const stats = await radio('stats');
            const spans = stats.reports.slice(sessions);
            check(spans.length === 2, `${spans.length} spans of reports, want 2`);
            const [a, b] = spans;
            // Before: an unbroken run from the first one. What the client has
            // acknowledged it has; what it has beyond was on its way then.
            exactly(before, a.first, a.first + before.length - 1, 'before the cut');
            check(before.length >= a.acked && before.length <= a.acked + a.unacked,
                `${before.length} messages before the cut; the radio knows of ${a.acked} and ${a.unacked} unknown`);
            check(a.acked + a.unacked === a.last - a.first + 1, `span ${JSON.stringify(a)} does not add up`);
            // After: exactly the rest.
            check(b.first === a.last + 1, `the second span begins at ${b.first}, want ${a.last + 1}`);
            exactly(after, b.first, job.last, 'after the cut');
            check(b.acked === after.length && b.unacked === 0, `second span ${JSON.stringify(b)}, ${after.length} received`);
            result.cut = {before: before.length, after: after.length, inFlight: a.last - before.at(-1), restart: ms};
            await client.controller.stop();
        } finally {
            relay.close();
        }
        check((await start(opt.url)).how === 'resumed', 'start after the relay');
    },

    // Messages on and on over one connection, while others do with the gateway what they like.
    async steady() {
        check(opt.until, 'steady needs --until FILE');
        const batch = 50;
        result.steady = {received: 0};
        do {
            client.numbers.length = 0;
            const job = await radio(`report ${batch} 20ms`);
            await client.until(() => client.disconnected || client.numbers.length >= batch, 120, `${batch} messages`);
            check(!client.disconnected, `the client lost its connection after ${result.steady.received} messages`);
            exactly(client.numbers, job.first, job.last, 'steady');
            result.steady.received += batch;
        } while (!existsSync(opt.until));
    },

    // An empty radio gets the network back from the client's backup.
    async restored() {
        await client.controller.stop(); // writes the backup
        await radio('wipe');
        await sleep(500);
        const {how, ms} = await start(opt.url);
        check(how === 'restored', `start() gave '${how}', want 'restored'`);
        const p = await client.controller.getNetworkParameters();
        check(p.panID === 0x1a62 && p.channel === 11, `restored network ${JSON.stringify(p)}`);
        const backup = JSON.parse(readFileSync(path.join(work, 'coordinator_backup.json'), 'utf8'));
        check(backup.network_key.key === '01030507090b0d0f00020406080a0c0d', 'network key in the backup');
        await client.controller.stop();
        const again = await start(opt.url);
        check(again.how === 'resumed', `start() after that gave '${again.how}', want 'resumed'`);
        result.restored = {ms};
    },
};

const limit = setTimeout(() => finish(new Failure(`not done within ${opt.timeout} s`)), Number(opt.timeout) * 1000);

function finish(error) {
    clearTimeout(limit);
    rmSync(work, {recursive: true, force: true});
    result.ok = !error;
    result.seconds = Math.round((performance.now() - began) / 100) / 10;
    if (error) {
        result.error = String(error.message ?? error);
        if (!opt.verbose) console.error(log.join('\n'));
        if (!(error instanceof Failure)) console.error(error);
    }
    console.log(JSON.stringify(result));
    process.exit(error ? 1 : 0);
}

try {
    let step;
    try {
        for (step of opt.steps.split(',')) {
            check(steps[step], `no step '${step}'`);
            await steps[step]();
        }
        await client.controller.stop();
    } catch (error) {
        error.message = `${step}: ${error.message}`;
        throw error;
    }
    finish();
} catch (error) {
    finish(error);
}

// Prints what zigbee-herdsman makes of a serial port mdns://..., as one line of
// JSON: path, adapter, baudRate. It connects to nothing.
//
//   node mdns.mjs DIR mdns://zigbee-coordinator
//
// DIR is the folder with node_modules (what install.sh prints).
import {createRequire} from 'node:module';
import path from 'node:path';

const [dir, port] = process.argv.slice(2);
const require = createRequire(path.join(dir, 'package.json'));
const {Adapter} = require('zigbee-herdsman/dist/adapter');
const {setLogger} = require('zigbee-herdsman/dist/utils/logger');
const quiet = () => {};
setLogger({debug: quiet, info: quiet, warning: console.error, error: console.error});

const serial = {path: port};
// This version finds the port, and then hands nothing back: what it found is in
// the options. The promise settles for failures only.
const failed = Adapter.create({}, serial, '', {}).then(() => new Promise(quiet));
const found = (async () => {
    while (serial.path === port) await new Promise((resolve) => setTimeout(resolve, 10));
})();
try {
    await Promise.race([failed, found]);
} catch (e) {
    console.error(e.message);
    process.exit(1);
}
console.log(JSON.stringify(serial));
process.exit(0);

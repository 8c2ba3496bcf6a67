'use strict';

// Locks with the npm libraries, for a test that speaks to this process in lines of JSON:
//
//   {"id": 1, "op": "lock", "library": "yarnl", "name": "job", "ttl": 5000}
//   {"id": 1, "got": true, "handle": 1}      or {"id": 1, "got": false}
//   {"id": 2, "op": "release", "handle": 1}
//   {"id": 2, "got": true}                   or false: the library says that it held nothing
//
// A lock is tried once. An error that is not a library's way of saying no is passed on
// as {"id": 1, "error": "…"}.

const [host, port] = process.argv[2].split(':');
const redis = require('redis');

const client = redis.createClient(port, host); // with callbacks
const IoRedis = require('ioredis');
const io = new IoRedis(Number(port), host); // with promises

// call makes a promise of a function that takes a callback.
const call = (f) => new Promise((resolve, reject) => f((err, result) => (err ? reject(err) : resolve(result))));

// no turns the errors by which a library says no into false.
const no = (promise, ...names) => promise.then(
  (value) => value,
  (err) => {
    if (names.some((n) => [err.name, err.constructor.name, err.message].includes(n))) return false;
    throw err;
  },
);

// Each returns null when the lock is another's, and otherwise how to release it.
const libraries = {
  async 'redislock'(name, ttl) {
    const lock = require('redislock').createLock(client, { timeout: ttl, retries: 0 });
    const got = await no(lock.acquire(name).then(() => true), 'LockAcquisitionError');
    return got && (() => no(lock.release().then(() => true), 'LockReleaseError'));
  },
  async 'yarnl'(name, ttl) {
    const lock = require('yarnl')(name, { client, ttl });
    const unlock = await call((done) => lock.tryLock({}, done));
    return unlock && (async () => (await call((done) => unlock(done))) === 1);
  },
  async 'redis-exp-lock'(name, ttl) {
    const lock = require('redis-exp-lock')({ redis: client, lifetime: ttl, maxRetries: 0 });
    const unlock = await no(new Promise((resolve, reject) => {
      lock(name, (err, retries, release) => (err ? reject(err) : resolve(release)));
    }), 'Exceeded max retry count');
    return unlock && (() => call((done) => unlock(done)));
  },
  async '@kontsedal/locco'(name, ttl) {
    const { Locker, IoRedisAdapter } = require('@kontsedal/locco');
    const locker = new Locker({
      adapter: new IoRedisAdapter({ client: io }),
      retrySettings: { retryTimes: 1, retryDelay: 10 },
    });
    const lock = await no(locker.lock(name, ttl).acquire(), 'RetryError');
    return lock && (() => no(lock.release({ throwOnFail: true }).then(() => true), 'LockReleaseError'));
  },
  async 'redlock'(name, ttl) {
    const Redlock = require('redlock');
    const redlock = new Redlock([client], { retryCount: 0 });
    const lock = await no(redlock.lock(name, ttl), 'LockError');
    return lock && (() => no(lock.unlock().then(() => true), 'LockError'));
  },
};

const held = new Map();
let handles = 0;

async function answer({ op, library, name, ttl, handle }) {
  if (op === 'release') return { got: await held.get(handle)() };
  const release = await libraries[library](name, ttl);
  if (!release) return { got: false };
  held.set(++handles, release);
  return { got: true, handle: handles };
}

require('readline').createInterface({ input: process.stdin }).on('line', async (line) => {
  const request = JSON.parse(line);
  let reply;
  try {
    reply = await answer(request);
  } catch (err) {
    reply = { error: String(err) };
  }
  console.log(JSON.stringify({ id: request.id, ...reply }));
}).on('close', () => process.exit(0));

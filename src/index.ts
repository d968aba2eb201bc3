/**
 * Locks and a guarded cache on Redis, over HTTP and TCP.
 *
 * @module
 */

export { type Codec, jsonCodec } from "./cache/codec.ts";
export { bytesCodec, capped, deflated, textCodec } from "./cache/codecs.ts";
export type { Build, CacheOptions, GetOptions, StoreOptions } from "./cache/options.ts";
export type { BuildContext } from "./cache/reader.ts";
export { type Cache, type CacheEntry, type CachePeek, createCache } from "./cache.ts";
export type { Clock, Stamp } from "./clock.ts";
export {
  type Command,
  type CommandClient,
  type ExecuteOptions,
  isReplyError,
  type Reply,
  ReplyError,
  type Signal,
} from "./command.ts";
export type { WaitUntil } from "./context.ts";
export {
  type Diagnosis,
  type DoctorOptions,
  doctor,
  type Finding,
  type FindingCode,
  type NodeHealth,
  type Severity,
} from "./doctor.ts";
export type { Environment } from "./environment.ts";
export {
  isLockError,
  LockError,
  type LockErrorCode,
  type LockErrorDetails,
  type LostBy,
  type NodeReport,
} from "./errors.ts";
export type { CacheEvent, LeaseholdEvent, LockEvent, Observer } from "./events.ts";
export { type FencedWrite, fencedSet } from "./fence.ts";
export type { Host } from "./host.ts";
export { type InspectOptions, inspectLock, type LockState, type LockVerdict, type NodeState } from "./inspect.ts";
export type { AsyncDisposal, Lease, LeaseMethods } from "./lease.ts";
export { createLock } from "./lock.ts";
export type { AcquireOptions, HoldOptions, Lock, LockOptions, TryOptions, TryResult } from "./lock-methods.ts";
export type { Random } from "./random.ts";
export { createRedlock, type RedlockOptions } from "./redlock.ts";
export type { ReleaseOutcome } from "./release.ts";
export {
  type Check,
  type CheckCode,
  type SelfTest,
  type SelfTestOptions,
  selfTest,
} from "./self-test.ts";
export type { Task } from "./with-lock.ts";

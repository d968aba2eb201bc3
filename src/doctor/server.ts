/**
 * What one server's own account of itself means for a lock. Pure functions.
 *
 * @module
 */
import type { Facts } from "./facts.ts";
import { about, type Finding } from "./findings.ts";

/** All findings about one node, but for its clock. */
export function serverFindings(facts: Facts): Finding[] {
  const { label, silence } = facts;
  if (silence !== undefined) {
    const meaning = "It has no vote: alone, nothing can be acquired; of several, one fewer of the others may fail";
    return [
      about("reachable", label)("error", `It gave no answer: ${silence}`, meaning, "See to it, or to the way there"),
    ];
  }
  const looks = [version, scripts, scriptHeader, compareAndSet, role, replicas, eviction, persistence];
  return looks.flatMap((look) => look(facts) ?? []);
}

function version({ label, info }: Facts): Finding {
  const say = about("version", label);
  const upstash = info.get("upstash_version");
  const valkey = info.get("valkey_version");
  const redis = info.get("redis_version");
  if (upstash) return say("ok", `Upstash ${upstash}`, "Every step of a lock is one script");
  if (valkey) return say("ok", `Valkey ${valkey}`, "It runs the scripts of Redis 7");
  if (!redis) return say("unknown", "It does not tell its version", "Tested is Redis 7.0", "Allow INFO");
  const major = Number.parseInt(redis, 10);
  if (major >= 7) return say("ok", `Redis ${redis}`, "It has all that a lock needs");
  if (major >= 5) return say("warning", `Redis ${redis}`, "Tested is Redis 7.0 and later", "Update it");
  return say(
    "error",
    `Redis ${redis}`,
    "Its scripts may not write once they have read the time",
    "Update it to 7.0 or later",
  );
}

function scripts({ label, inspect }: Facts): Finding {
  const say = about("scripts", label);
  if (inspect?.kind === "reply") return say("ok", "It runs the scripts", "Every step of a lock is one script");
  const reason = inspect?.reason || "no answer";
  if (/READONLY/.test(reason)) {
    return say("error", `It refuses writes: ${reason}`, "Nothing can be acquired here", "Name its primary instead");
  }
  const remedy = "Allow EVAL, EVALSHA and the commands inside, on the keys of the lock's prefix";
  return say(
    inspect?.kind === "no-vote" ? "error" : "unknown",
    `No script ran: ${reason}`,
    "No lock works here",
    remedy,
  );
}

function scriptHeader({ label, scriptHeader: header, takesHeaders, info }: Facts): Finding {
  const say = about("script-header", label);
  if (header) return say("ok", `Scripts are sent under "${header}"`, "They do not lock more than their keys");
  if (info.has("upstash_version")) {
    const remedy = 'Set scriptHeader to "#!lua flags=allow-key-locking"';
    return say("warning", "Scripts are sent without a header", "On Upstash each one locks the whole database", remedy);
  }
  if (takesHeaders === undefined) return say("unknown", "Whether it takes script headers is not told", "None is used");
  const finding = takesHeaders ? "It takes script headers" : "It takes no script headers";
  return say("ok", finding, "None is used, and none is needed");
}

function compareAndSet({ label, compareCommands }: Facts): Finding {
  const say = about("compare-and-set", label);
  const meaning = "Not needed: the scripts compare and set in one step";
  if (!compareCommands) return say("unknown", "Whether it has commands that compare and set is not told", meaning);
  return say("ok", `Commands that compare and delete: ${compareCommands.join(", ") || "none"}`, meaning);
}

function role({ label, info }: Facts): Finding {
  const say = about("role", label);
  const said = info.get("role");
  if (said === "master") return say("ok", "It is a primary", "What it grants is decided here");
  if (said === undefined) {
    return say("unknown", "It does not tell its role", "A replica would refuse every step of a lock", "Allow INFO");
  }
  const finding = `It is a ${said === "slave" ? "replica" : said}`;
  const meaning =
    info.get("slave_read_only") === "0"
      ? "It takes writes that its primary never sees: it grants what the primary grants to another"
      : "It refuses every step of a lock, and what it shows is the past";
  return say("error", finding, meaning, "Name its primary instead");
}

function replicas({ label, info }: Facts): Finding | undefined {
  const count = Number(info.get("connected_slaves") ?? 0);
  if (info.get("role") !== "master" || !count) return undefined;
  const say = about("replicas", label);
  const states = [...info].filter(([field]) => /^slave\d+$/.test(field)).map(([, text]) => text);
  const lagS = Math.max(0, ...states.map((text) => Number(/\blag=(\d+)/.exec(text)?.[1] ?? 0)));
  const offset = Number(info.get("master_repl_offset") ?? 0);
  const behind = Math.max(0, ...states.map((text) => offset - Number(/\boffset=(\d+)/.exec(text)?.[1] ?? offset)));
  const online = states.filter((text) => /\bstate=online\b/.test(text)).length;
  const meaning =
    "One that takes over has not got the latest leases: two may then hold one lock, and the fence decides";
  const finding = `${online} of ${count} replicas online, heard ${lagS} s ago and ${behind} bytes behind at worst`;
  const remedy = "Check fences where you write, or take a Redlock over independent primaries";
  // They report once a second, so 1 s is what is to be expected.
  return online < count || lagS > 1
    ? say("warning", finding, meaning, `See to the replication. ${remedy}`)
    : say("ok", finding, meaning, remedy);
}

function eviction({ label, info, config }: Facts): Finding {
  const say = about("eviction", label);
  const policy = info.get("maxmemory_policy") ?? config.get("maxmemory-policy");
  const meaning = "Locks have an expiry, so where something is evicted they are the first to go";
  if (!policy)
    return say("unknown", "It does not tell its eviction policy", meaning, "Make sure that it is noeviction");
  if (policy === "noeviction") return say("ok", "maxmemory-policy is noeviction", "A live lease is never evicted");
  const remedy = "Set maxmemory-policy to noeviction, or give locks a Redis of their own";
  const unlimited = info.get("maxmemory") === "0" ? ", without a limit as yet" : "";
  return say(unlimited ? "warning" : "error", `maxmemory-policy is ${policy}${unlimited}`, meaning, remedy);
}

function persistence({ label, info, config }: Facts): Finding {
  const say = about("persistence", label);
  const appends = info.get("aof_enabled") ?? { yes: "1", no: "0" }[config.get("appendonly") ?? ""];
  const fsync = config.get("appendfsync");
  const remedy = "Set appendonly yes and appendfsync always, or give the Redlock a quarantineMs";
  if (appends === "0") {
    const save = config.get("save");
    const kept = save === "" ? "nothing" : save ? "snapshots only" : "no log of writes";
    return say("warning", `It keeps ${kept}`, "A restart forgets live leases: two may then hold one lock", remedy);
  }
  if (appends === undefined || fsync === undefined) {
    const finding =
      appends === "1" ? "It keeps every write, but does not tell how soon" : "It does not tell what it keeps";
    return say("unknown", finding, "Whether a restart forgets live leases cannot be told", remedy);
  }
  if (fsync === "always")
    return say("ok", "Every write is on disk before it is answered", "A restart forgets no lease");
  const finding = `It keeps every write, on disk by appendfsync ${fsync}`;
  return say(
    "warning",
    finding,
    "A crash of its machine forgets the latest leases: two may then hold one lock",
    remedy,
  );
}

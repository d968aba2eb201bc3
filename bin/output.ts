/**
 * What people and machines are shown: text, tables, colours, progress, JSON.
 *
 * @module
 */

const styles = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const;

/** A way to stand out. */
export type Style = keyof typeof styles;

/** Where a command writes. */
export interface Output {
  /** Whether a machine reads it. */
  readonly json: boolean;
  /** A line for people; control characters, which a lock's name or a server's answer may have, are made visible. */
  line(text?: string): void;
  /** The one document for machines. */
  document(value: object): void;
  /** Columns as wide as what is in them; the first row is the head. */
  table(rows: readonly (readonly string[])[]): void;
  /** Text in a colour, if there are colours. */
  paint(style: Style, text: string): string;
  /** Tells what is being waited for, from one second on, until it is stopped. */
  progress(waitingFor: () => string): () => void;
}

/** Writes to this process' streams. */
export function createOutput(json: boolean): Output {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  const isTerminal = process.stdout.isTTY === true && TERM !== "dumb";
  const coloured = !json && !NO_COLOR && (FORCE_COLOR ? FORCE_COLOR !== "0" : isTerminal);
  const line = (text = ""): void => void process.stdout.write(`${text}\n`);
  const paint = (style: Style, text: string): string => (coloured ? `\u001b[${styles[style]}m${text}\u001b[0m` : text);
  // Whoever reads may stop, as in `leasehold self-test | head -1`; what was begun is still brought to its end.
  process.stdout.on("error", () => {});
  return {
    json,
    line,
    paint,
    document: (value) => line(escaped(JSON.stringify(value, null, 2))),
    table(rows) {
      const [head = []] = rows;
      const widths = head.map((_, column) => Math.max(...rows.map((row) => [...(row[column] ?? "")].length)));
      for (const [index, row] of rows.entries()) {
        const cells = row.map(
          (cell, column) => cell + " ".repeat(Math.max(0, (widths[column] ?? 0) - [...cell].length)),
        );
        const text = cells.join("  ").trimEnd();
        line(index === 0 ? paint("dim", text) : text);
      }
    },
    progress: startProgress,
  };
}

/** Makes visible what would move the cursor, hide text or turn its direction. */
export function visible(text: string): string {
  return text.replace(/\p{C}/gu, (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`);
}

/** A duration as a person reads it. */
export function duration(ms: number | undefined): string {
  if (ms === undefined) return "";
  if (Math.abs(ms) < 10) return `${ms.toFixed(1)} ms`;
  return Math.abs(ms) < 10_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

function escaped(json: string): string {
  return json.replace(/[\u007f-\u009f]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`);
}

/** On standard error, so that what is piped stays clean: a line that changes on a terminal, else one line. */
function startProgress(waitingFor: () => string): () => void {
  const { stderr } = process;
  const startedAt = performance.now();
  let shown = false;
  const show = (): void => {
    const seconds = Math.floor((performance.now() - startedAt) / 1_000);
    if (seconds < 1 || (shown && !stderr.isTTY)) return;
    const text = `${visible(waitingFor())} (${seconds} s)`;
    stderr.write(stderr.isTTY ? `\r\u001b[2K${text}` : `${text}\n`);
    shown = true;
  };
  const timer = setInterval(show, 250);
  return () => {
    clearInterval(timer);
    if (shown && stderr.isTTY) stderr.write("\r\u001b[2K");
  };
}

/** As much of Bun's own module as is used here; a project on Bun has all of it from `@types/bun`. */
declare module "bun" {
  interface RedisOptions {
    readonly idleTimeout?: number;
    readonly maxRetries?: number;
  }

  class RedisClient {
    constructor(url?: string, options?: RedisOptions);
    connect(): Promise<void>;
    send(command: string, args: string[]): Promise<unknown>;
    close(): void;
  }

  interface Server {
    readonly url: URL;
    stop(closeActiveConnections?: boolean): Promise<void>;
  }

  function serve(options: {
    readonly hostname?: string;
    readonly port?: number;
    fetch(request: Request): Response | Promise<Response>;
  }): Server;
}

// Browsers allow no workers for pages that are opened as files. Search then runs its worker script in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      frame.onload = () => {
        const inside = frame.contentWindow;
        inside.postMessage = (data) => this.answer(data);
        inside.importScripts = (...urls) =>
          urls.reduce((done, one) => done.then(() => load(inside, one)), Promise.resolve());
        load(inside, url).then(() => {
          this.frame = inside;
          this.waiting.splice(0).forEach((data) => this.postMessage(data));
        });
      };
      document.body.append(frame);
    }
    postMessage(data) {
      if (this.frame) this.frame.dispatchEvent(new this.frame.MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
    answer(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }
    terminate() {}
  };
  const load = (inside, url) =>
    new Promise((done, failed) => {
      const script = inside.document.createElement("script");
      Object.assign(script, { src: url, onload: done, onerror: failed });
      inside.document.body.append(script);
    });
}

// The search runs in a Worker, which browsers refuse to start for pages opened as files. There, this class runs the
// worker's script in a hidden frame. It has the interface of the npm package iframe-worker, which Material for MkDocs
// would load from the network.
"use strict";
(() => {
  // Both run inside the frame, as the worker's own functions of these names.
  function postMessageToParent(data) { parent.postMessage(data, "*"); }
  function importScriptsInOrder(...addresses) {
    return addresses.reduce((earlier, address) => earlier.then(() => new Promise((loaded) => {
      const script = document.createElement("script");
      script.src = address;
      script.onload = loaded;
      document.body.appendChild(script);
    })), Promise.resolve());
  }

  class FrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      this.receive = (event) => {
        if (event.source !== inside) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      window.addEventListener("message", this.receive);
      inside.document.open();
      inside.document.write(
        `<html><body><script>postMessage = ${postMessageToParent}; importScripts = ${importScriptsInOrder};</` +
        `script><script src="${address}"></` + "script></body></html>"
      );
      inside.document.close();
      this.ready = new Promise((loaded) => { inside.onload = loaded; });
    }
    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data: structuredClone(data) }));
      });
    }
    terminate() {
      window.removeEventListener("message", this.receive);
      this.frame.remove();
    }
  }

  window.IFrameWorker = FrameWorker;
  if (location.protocol === "file:") window.Worker = FrameWorker;
})();

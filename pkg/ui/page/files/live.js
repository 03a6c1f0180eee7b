// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The connection: server-sent events, and what is shown when they end.
import {setAttribute, setText} from './dom.js';

// connect calls snapshot and patch with what the server sends. The browser repeats a connection that broke; one that
// the server refused is repeated here, less and less often.
export function connect({snapshot, patch}) {
  const status = document.getElementById('connection');
  let wait = 1000;
  let shown = false;
  const show = (state, text) => {
    setAttribute(status, 'data-state', state);
    setText(status, text);
  };
  const lost = () => show('lost', (shown ? 'Connection lost. What is shown is old.' : 'No connection.') + ' Trying again ...');

  function open() {
    const source = new EventSource('api/events');
    const receive = (name, handle) => source.addEventListener(name, (event) => {
      try {
        handle(JSON.parse(event.data));
        wait = 1000;
        shown = true;
        show('live', 'Live');
      } catch (error) {
        source.close();
        show('failed', `The page cannot show what the server sent: ${error.message}`);
        throw error;
      }
    });
    receive('snapshot', snapshot);
    receive('patch', patch);
    source.onerror = () => {
      lost();
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(open, wait);
      wait = Math.min(wait * 2, 15000);
    };
  }
  open();
}

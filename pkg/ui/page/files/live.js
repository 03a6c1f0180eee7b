// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// The connection: server-sent events, and what is shown when they end. A browser has six connections to a server for all its tabs:
// a tab that nobody sees gives its connection back.
import {el, setAttribute, setText} from './dom.js';

// A page whose csccm has ended is not asked for ever.
const mostTries = 20;

// connect calls snapshot and patch with what the server sends. The browser repeats a connection that broke; one that
// the server refused is repeated here, less and less often.
export function connect({snapshot, patch}) {
  const status = document.getElementById('connection');
  let wait = 1000;
  let shown = false;
  let source = null;
  let tries = 0;
  const show = (state, text) => {
    setAttribute(status, 'data-state', state);
    setText(status, text);
  };
  const old = () => (shown ? 'Connection lost. What is shown is old.' : 'No connection.');
  const lost = () => show('lost', old() + ' Trying again ...');
  const again = el('button', {type: 'button', onclick: () => { tries = 0; open(); }}, 'Try again');

  function close() {
    source?.close();
    source = null;
  }

  function open() {
    close();
    const own = source = new EventSource('api/events');
    const receive = (name, handle) => own.addEventListener(name, (event) => {
      try {
        handle(JSON.parse(event.data));
        wait = 1000;
        tries = 0;
        shown = true;
        show('live', 'Live');
      } catch (error) {
        own.close();
        show('failed', `The page cannot show what the server sent: ${error.message}`);
        throw error;
      }
    });
    receive('snapshot', snapshot);
    receive('patch', patch);
    own.onerror = () => {
      if (own !== source) return;
      if (++tries > mostTries) {
        close();
        show('failed', old() + ' Is csccm ui still running? ');
        status.append(again);
        return;
      }
      lost();
      if (own.readyState !== EventSource.CLOSED) return;
      setTimeout(() => { if (own === source) open(); }, wait);
      wait = Math.min(wait * 2, 15000);
    };
  }
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) close();
    else if (!source) open();
  });
  if (!document.hidden) open();
}

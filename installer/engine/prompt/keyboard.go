// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package prompt

import (
	"bytes"
	"sync"

	surveyterminal "github.com/AlecAivazis/survey/v2/terminal"
)

// keyboard keeps keys that survey would drop. Before a prompt reads keys it asks the terminal for the cursor's position
// and throws away what one Read returns behind the answer; after a prompt it throws away what one Read returns behind
// the end of the line. So a Read ends there, and the rest waits for the next Read.
type keyboard struct {
	surveyterminal.FileReader

	mu    sync.Mutex // an abandoned prompt may still read
	ahead []byte
}

func (k *keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	if len(k.ahead) > 0 {
		n := copy(p, k.ahead[:unit(k.ahead)])
		k.ahead = k.ahead[n:]
		k.mu.Unlock()
		return n, nil
	}
	k.mu.Unlock()
	read, err := k.FileReader.Read(p)
	n := unit(p[:read])
	if n < read {
		k.mu.Lock()
		k.ahead = append(k.ahead, p[n:read]...)
		k.mu.Unlock()
	}
	return n, err
}

// unit returns the length of the first line or answer in b, all of b without one. The answer with the cursor's position
// ends with R; a Read that also ends at other Rs is harmless.
func unit(b []byte) int {
	if i := bytes.IndexAny(b, "R\r\n"); i >= 0 {
		return i + 1
	}
	return len(b)
}

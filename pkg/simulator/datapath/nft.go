// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/csccm/csccm/pkg/simulator"
)

// netfilter applies port forwarding rules to the nftables of this network namespace with the program nft. nft loads
// the whole text in one transaction, and the text is what tests compare and people read.
type netfilter struct{ loaded string }

// apply loads the ruleset if it has changed. As on a virtual router, connection tracking is not flushed: packets of a
// tracked connection keep their destination until the connection has been idle for the time-out of its protocol.
func (n *netfilter) apply(ctx context.Context, forwards []simulator.RouterForward) error {
	text := Ruleset(forwards)
	if text == n.loaded {
		return nil
	}
	if err := nft(ctx, text); err != nil {
		return fmt.Errorf("port forwarding rules: %w", err)
	}
	n.loaded = text
	return nil
}

func (n *netfilter) remove(ctx context.Context) error {
	return nft(ctx, fmt.Sprintf("table ip %[1]s\ndelete table ip %[1]s\n", Table))
}

func nft(ctx context.Context, text string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("the program nft (package nftables) is not installed")
	}
	if err != nil {
		return fmt.Errorf("nft needs root, or a network namespace of the user: %w: %s", err,
			strings.TrimSpace(string(out)))
	}
	return nil
}

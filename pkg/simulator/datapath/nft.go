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

// netfilter applies port forwarding rules to the nftables of this network namespace with the program nft: it loads a
// whole text in one transaction, and what it gets is what a test compares and a person reads.
type netfilter struct{ loaded string }

// apply loads the ruleset if it has changed. Connection tracking is left alone, as on a virtual router: packets of a
// tracked flow keep their destination until the flow has paused for the time-out of its protocol.
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

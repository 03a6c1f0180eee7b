// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"

	"github.com/csccm/csccm/installer/engine/prompt"
)

// Ask has the person at the terminal decide about every Service that needs consent and has none.
func (t *Taker) Ask(ctx context.Context, p prompt.Prompter) error {
	for _, s := range t.Plan.Undecided(t.Accept, t.Pin) {
		var choices []prompt.Choice
		if s.Pins() != nil {
			choices = append(choices, prompt.Choice{Value: "pin", Label: "keep the current state (sets " + describePins(s.Pins()) + ")"})
		}
		choices = append(choices, prompt.Choice{Value: "accept", Label: "agree to the change"}, prompt.Choice{Value: "stop", Label: "stop here"})
		answer, err := p.Select(ctx, prompt.Question{Message: "Service " + s.Service, Flag: "--accept or --pin " + s.Service, Help: describeDifferences(s)}, choices)
		switch {
		case err != nil:
			return err
		case answer == "pin":
			t.Pin = append(t.Pin, s.Service)
		case answer == "accept":
			t.Accept = append(t.Accept, s.Service)
		default:
			return noConsent([]*ServicePlan{s})
		}
	}
	return nil
}

package helm_test

import (
	"testing"

	"helm.sh/helm/v4/pkg/action"
)

func TestN7ChartLintsWithoutWarning(t *testing.T) {
	for _, set := range valueSets(t) {
		t.Run(set, func(t *testing.T) {
			lint := action.NewLint()
			lint.Namespace = "holdfast-system"
			result := lint.Run([]string{"holdfast"}, values(t, set))
			if result.TotalChartsLinted != 1 {
				t.Errorf("%d charts were linted", result.TotalChartsLinted)
			}
			if action.HasWarningsOrErrors(result) {
				t.Errorf("messages %v, errors %v", result.Messages, result.Errors)
			}
		})
	}
}

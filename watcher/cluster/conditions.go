package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-cni/holdfast/configmap"
)

// conditions sum the findings up, each with the time at which it last changed.
func (r *reporter) conditions(before []metav1.Condition, findings []configmap.Finding, o outcome) []metav1.Condition {
	blames := func(belongs func(configmap.Finding) bool) *configmap.Finding {
		i := slices.IndexFunc(findings, func(f configmap.Finding) bool { return f.Severity == configmap.Error && belongs(f) })
		if i < 0 {
			return nil
		}
		return &findings[i]
	}
	isPlugin := func(f configmap.Finding) bool {
		return f.ID == configmap.PluginInvalid || f.ID == configmap.PluginMissing
	}
	isList := func(f configmap.Finding) bool {
		return strings.HasPrefix(string(f.ID), "List") || slices.Contains([]configmap.ID{configmap.ConfigMapForeign,
			configmap.ConfigMapUnwritable, configmap.ConfigMapContested, configmap.ChainingListMissing, configmap.ChainingModeUnknown}, f.ID)
	}
	all := []metav1.Condition{
		condition(PluginValid, blames(isPlugin), "Valid", "plugin.json can be chained"),
		condition(ListCurrent, blames(isList), "Current", "the ConfigMap holds the list that Cilium must read"),
		condition(CiliumReady, blames(func(f configmap.Finding) bool { return !isPlugin(f) && !isList(f) }), "Ready",
			"nothing in Cilium's configuration stands against a chained plugin"),
	}
	if o.unread != nil {
		for i := range all {
			all[i] = metav1.Condition{Type: all[i].Type, Status: metav1.ConditionUnknown, Reason: string(configmap.SourceUnreadable),
				Message: o.unread.What + " cannot be read, so this is not known"}
		}
	}
	if all[1].Status == metav1.ConditionTrue && !o.settled {
		all[1] = metav1.Condition{Type: ListCurrent, Status: metav1.ConditionFalse, Reason: "Pending", Message: "the ConfigMap is not written yet"}
	}
	if o.leaving {
		left := metav1.Condition{Type: Left, Status: metav1.ConditionFalse, Reason: "Leaving", Message: "Cilium's part alone is not written yet"}
		switch {
		case o.settled:
			left = metav1.Condition{Type: Left, Status: metav1.ConditionTrue, Reason: "Released",
				Message: "stays and holds Cilium's entry alone, so that Cilium can start"}
		case o.plan.StillNames != "":
			left = metav1.Condition{Type: Left, Status: metav1.ConditionTrue, Reason: "LeftAlone",
				Message: "was not written by this release and still names " + o.plan.StillNames + ": take that out, or no pod starts once the plugin is gone"}
		case o.plan.LeftAlone:
			left = metav1.Condition{Type: Left, Status: metav1.ConditionTrue, Reason: "LeftAlone",
				Message: "was not written by this release and is left as it is"}
		}
		all = append(all, left)
	}
	for i := range all {
		all[i].LastTransitionTime = metav1.NewTime(r.now().UTC().Truncate(time.Second))
		for _, old := range before {
			if old.Type == all[i].Type && old.Status == all[i].Status {
				all[i].LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return all
}

func condition(name string, blame *configmap.Finding, reason, message string) metav1.Condition {
	if blame == nil {
		return metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: reason, Message: message}
	}
	return metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: string(blame.ID),
		Message: fmt.Sprintf("%s: %s; fix: %s", blame.Object, blame.Message, blame.Fix)}
}

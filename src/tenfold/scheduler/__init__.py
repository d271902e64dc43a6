"""Who runs next: queue, token budget, policies, preemption; returns a StepPlan."""

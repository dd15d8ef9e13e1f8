# Published figures of the cost model.

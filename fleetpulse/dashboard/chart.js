// A chart by Apache ECharts. It is drawn once it is in sight: what is further down a page costs nothing until somebody
// scrolls to it, or prints.
import { echarts } from "nicegui-echart";
import { toRaw } from "vue";
import { convertDynamicProperties } from "../../static/utils/dynamic_properties.js";

const NEAR = "50px";
const MARKING = { type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true };

export default {
  template: `<div class="fp-chart" role="img" @pointerenter="mark"></div>`,
  props: {
    options: Object,
    zoom: Boolean, // a stretch that was marked with the mouse is emitted as "zoom": start and end
  },
  mounted() {
    this.isDue = true;
    this.inSight = false;
    this.observed = new IntersectionObserver((found) => this.look(found.at(-1).isIntersecting), { rootMargin: NEAR });
    this.observed.observe(this.$el);
    this.sized = new ResizeObserver(this.resize);
    window.addEventListener("beforeprint", this.print);
  },
  beforeUnmount() {
    window.removeEventListener("beforeprint", this.print);
    this.observed.disconnect();
    this.sized.disconnect();
    this.chart?.dispose();
  },
  methods: {
    update_chart() {
      this.isDue = true;
      this.draw();
    },
    look(inSight) {
      this.inSight = inSight;
      this.draw();
    },
    print() {
      this.look(true);
    },
    draw() {
      if (!this.inSight || !this.isDue) return;
      this.isDue = false;
      this.chart ??= this.open();
      const options = toRaw(this.options); // of plain objects: through Vue's proxies each point costs several calls
      convertDynamicProperties(options, true);
      const notMerge = this.lines !== options.series.length;
      this.chart.setOption(options, { notMerge });
      this.lines = options.series.length;
      this.isMarking &&= !notMerge;
      if (this.$el.matches(":hover")) this.mark();
    },
    open() {
      const chart = echarts.init(this.$el);
      chart.on("datazoom", (event) => {
        const { startValue, endValue } = (event.batch || [event])[0];
        if (startValue !== undefined) this.$emit("zoom", [startValue, endValue]);
      });
      this.sized.observe(this.$el);
      return chart;
    },
    // Taking the mouse draws a chart again, so it waits for the mouse.
    mark() {
      if (!this.zoom || this.isMarking || !this.chart) return;
      this.isMarking = true;
      this.chart.dispatchAction(MARKING);
    },
    resize() {
      const { clientWidth, clientHeight } = this.$el;
      const same = clientWidth === this.chart.getWidth() && clientHeight === this.chart.getHeight();
      if (clientWidth && clientHeight && !same) this.chart.resize();
    },
  },
};
